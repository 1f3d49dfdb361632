import herddb.server.Server;
import herddb.server.ServerConfiguration;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
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
        // A line on standard input is a statement.
        String url = "jdbc:herddb:server:127.0.0.1:" + arguments[1];
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try (Connection connection = DriverManager.getConnection(url, "sa", "hdb");
                    Statement statement = connection.createStatement()) {
                statement.execute(line);
                System.out.println("done");
            } catch (SQLException error) {
                System.out.println("failed: " + error.getMessage());
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
