import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.LongAdder;

/**
 * What a JDBC driver does without anything around it: threads that read rows by key, every column of
 * each as a string. java PlainJdbc.java URL USER THREADS SECONDS RECORDS; prints reads a second of the
 * second half, when everything is compiled.
 */
public class PlainJdbc {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0], user = arguments[1];
        int threads = Integer.parseInt(arguments[2]), records = Integer.parseInt(arguments[4]);
        double seconds = Double.parseDouble(arguments[3]);
        StringBuilder fields = new StringBuilder("FIELD0");
        for (int field = 1; field < 10; field++) fields.append(", FIELD").append(field);
        String text = "SELECT " + fields + " FROM usertable WHERE YCSB_KEY = ?";
        LongAdder done = new LongAdder();
        for (int number = 0; number < threads; number++) {
            SplittableRandom random = new SplittableRandom(number);
            Thread thread = new Thread(() -> {
                try (Connection connection = DriverManager.getConnection(url, user, "");
                        PreparedStatement statement = connection.prepareStatement(text)) {
                    for (;;) {
                        statement.setString(1, "user" + random.nextInt(records));
                        try (ResultSet rows = statement.executeQuery()) {
                            if (!rows.next()) throw new IllegalStateException("a row is missing");
                            for (int column = 1; column <= 10; column++) {
                                if (rows.getString(column) == null) throw new IllegalStateException("a null");
                            }
                        }
                        done.increment();
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep((long) (seconds * 500));
        long before = done.sum(), begin = System.nanoTime();
        Thread.sleep((long) (seconds * 500));
        System.out.println((done.sum() - before) * 1e9 / (System.nanoTime() - begin));
        System.exit(0);
    }
}
