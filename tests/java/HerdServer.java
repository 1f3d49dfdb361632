import herddb.server.Server;
import herddb.server.ServerConfiguration;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** HerdDB's server for the tests: java HerdServer.java FOLDER PORT. It ends with its standard input. */
public class HerdServer {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("server.mode", "standalone");
        properties.setProperty("server.host", "127.0.0.1");
        properties.setProperty("server.port", arguments[1]);
        properties.setProperty("server.base.dir", arguments[0]);
        properties.setProperty("http.enable", "false");
        Server server = new Server(new ServerConfiguration(properties));
        server.start();
        server.waitForStandaloneBoot();
        System.out.println("ready");
        // A line on standard input is a statement; its rows follow, then the word done.
        String url = "jdbc:herddb:server:127.0.0.1:" + arguments[1];
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try (Connection connection = DriverManager.getConnection(url, "sa", "hdb");
                    Statement statement = connection.createStatement()) {
                if (statement.execute(line)) {
                    ResultSet rows = statement.getResultSet();
                    int columns = rows.getMetaData().getColumnCount();
                    while (rows.next()) {
                        StringBuilder row = new StringBuilder("row ").append(rows.getString(1));
                        for (int column = 2; column <= columns; column++) row.append('|').append(rows.getString(column));
                        System.out.println(row);
                    }
                }
                System.out.println("done");
            } catch (SQLException error) {
                System.out.println("failed: " + error.getMessage());
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
