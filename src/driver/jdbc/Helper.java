package ycsbtrace;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Driver;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.SQLTimeoutException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Properties;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * One JDBC connection and its prepared statements, for the Rust half of this driver (jvm.rs), which
 * calls call() once for every statement, always from the same thread.
 *
 * Requests and answers travel in a direct buffer, in the machine's byte order: texts as a 4-byte
 * length and their bytes in UTF-8; length -1 is null, -2 precedes a 4-byte number. Exceptions never
 * cross the border: they become an answer too.
 *
 * Compiled with --release 8; the class file beside this source is what the program carries.
 */
public final class Helper {
    // What call() is asked for. The same numbers are in jvm.rs.
    private static final int CONNECT = 0;
    private static final int PREPARE = 1;
    private static final int QUERY = 2;
    private static final int UPDATE = 3;
    private static final int BEGIN = 4;
    private static final int COMMIT = 5;
    private static final int ROLLBACK = 6;
    private static final int CLOSE = 7;
    private static final int DESCRIBE = 8;
    private static final int COLUMNS = 9;
    private static final int TABLES = 10;
    private static final int ASK = 11;
    private static final int EXECUTE = 12;
    private static final int RESERVE = 13;
    private static final int BATCH = 14;
    private static final int COLLECTIONS = 15;

    /** The request failed: the buffer holds an error. */
    private static final long FAILED = 1L << 32;
    /** The buffer is another one than before. */
    private static final long MOVED = 1L << 33;

    private static final int NULL = -1;
    private static final int NUMBER = -2;

    private ByteBuffer buffer = direct(64 * 1024);
    private byte[] scratch = new byte[1024];
    private Connection connection;
    private boolean autocommit;
    /** Rows to fetch at once in a scan, or 0: the driver's own default. */
    private int fetchSize;
    private final List<PreparedStatement> statements = new ArrayList<>();
    /** For each statement: is the column binary? Known after its first answer. */
    private final List<boolean[]> binary = new ArrayList<>();
    /** Inside BEGIN and COMMIT. */
    private boolean transaction;

    public Helper() {}

    public ByteBuffer buffer() {
        return buffer;
    }

    /**
     * Does what is asked, of statement `number`, with `parameters` values from the buffer, within
     * `left` nanoseconds if that is above 0. Returns a count, and FAILED and MOVED.
     */
    public long call(int what, int number, int parameters, long left) {
        ByteBuffer before = buffer;
        long answer;
        boolean late = false;
        try {
            begin(left);
            try {
                answer = perform(what, number, parameters);
            } finally {
                late = end(left);
            }
            if (late) throw new SQLTimeoutException("the answer came after the operation was given up");
        } catch (Throwable error) {
            answer = FAILED;
            try {
                if (connection != null && !autocommit && !transaction && !late) connection.rollback();
            } catch (Throwable ignored) {
                // The first failure is the one to tell.
            }
            tell(error, late);
        }
        return buffer == before ? answer : answer | MOVED;
    }

    private long perform(int what, int number, int parameters) throws Exception {
        buffer.clear();
        switch (what) {
            case QUERY: {
                long rows = query(number, parameters);
                if (!autocommit && !transaction) connection.commit();
                return rows;
            }
            case UPDATE: {
                PreparedStatement statement = bind(number, parameters);
                current = statement;
                long rows = statement.executeUpdate();
                if (!autocommit && !transaction) connection.commit();
                return rows;
            }
            case BEGIN:
                // `number` is the isolation level, by the constants of java.sql.Connection.
                if (connection.getTransactionIsolation() != number) {
                    // HerdDB accepts every level and keeps to its own.
                    if (!connection.getMetaData().supportsTransactionIsolationLevel(number))
                        throw new SQLFeatureNotSupportedException(
                                "it does not have the isolation level of --rmw transaction (-p jdbc.isolation)");
                    connection.setTransactionIsolation(number);
                }
                if (autocommit) connection.setAutoCommit(false);
                transaction = true;
                return 0;
            case COMMIT:
                connection.commit();
                endTransaction();
                return 0;
            case ROLLBACK:
                try {
                    connection.rollback();
                } finally {
                    endTransaction();
                }
                return 0;
            case CONNECT:
                return connect(number);
            case PREPARE: {
                PreparedStatement statement = connection.prepareStatement(next());
                if (number == 1 && fetchSize > 0) statement.setFetchSize(fetchSize);
                statements.add(statement);
                binary.add(null);
                return statements.size() - 1;
            }
            case CLOSE:
                WATCHED.remove(this);
                if (connection != null) connection.close();
                return 0;
            case DESCRIBE:
                return describe();
            case COLUMNS:
                return columns(next());
            case TABLES:
                return tables(next(), next());
            case ASK: {
                // `number` is the most rows that may come.
                String text = next();
                try (Statement statement = connection.createStatement()) {
                    statement.setMaxRows(number);
                    long rows;
                    try (ResultSet answer = statement.executeQuery(text)) {
                        rows = answer(answer, binary(answer));
                    }
                    if (!autocommit) connection.commit();
                    return rows;
                }
            }
            case EXECUTE: {
                String text = next();
                try (Statement statement = connection.createStatement()) {
                    statement.execute(text);
                }
                if (!autocommit) connection.commit();
                return 0;
            }
            case RESERVE:
                reserve(number);
                return 0;
            case BATCH:
                // What follows is COMMIT or ROLLBACK: drivers disagree about a batch in autocommit mode.
                if (autocommit) connection.setAutoCommit(false);
                transaction = true;
                return batch(number, parameters);
            case COLLECTIONS:
                return collections();
            default:
                throw new IllegalArgumentException("request " + what);
        }
    }

    // ---- operations

    private long query(int number, int parameters) throws SQLException {
        PreparedStatement statement = bind(number, parameters);
        current = statement;
        try (ResultSet rows = statement.executeQuery()) {
            boolean[] binary = this.binary.get(number);
            if (binary == null) {
                binary = binary(rows);
                this.binary.set(number, binary);
            }
            return answer(rows, binary);
        }
    }

    /** Executes a statement for several rows; the first parameter says how many values a row has. */
    private long batch(int number, int parameters) throws SQLException {
        buffer.getInt();
        int perRow = buffer.getInt();
        PreparedStatement statement = statements.get(number);
        try {
            for (int row = 0; row < (parameters - 1) / perRow; row++) bind(number, perRow).addBatch();
            current = statement;
            long rows = 0;
            for (int count : statement.executeBatch()) {
                // Some drivers only know that it succeeded.
                rows += count == Statement.SUCCESS_NO_INFO ? 1 : Math.max(count, 0);
            }
            return rows;
        } catch (BatchUpdateException failed) {
            // What is wrong with the row, instead of what is wrong with the batch.
            if (failed.getNextException() != null) throw failed.getNextException();
            if (failed.getCause() instanceof SQLException) throw (SQLException) failed.getCause();
            throw failed;
        } finally {
            statement.clearBatch();
        }
    }

    private PreparedStatement bind(int number, int parameters) throws SQLException {
        PreparedStatement statement = statements.get(number);
        for (int parameter = 1; parameter <= parameters; parameter++) {
            int length = buffer.getInt();
            if (length == NUMBER) {
                statement.setInt(parameter, buffer.getInt());
            } else {
                statement.setString(parameter, text(length));
            }
        }
        return statement;
    }

    private long answer(ResultSet rows, boolean[] binary) throws SQLException {
        buffer.clear();
        long count = 0;
        while (rows.next()) {
            for (int column = 0; column < binary.length; column++) {
                if (binary[column]) {
                    put(rows.getBytes(column + 1));
                } else {
                    put(rows.getString(column + 1));
                }
            }
            count++;
        }
        return count;
    }

    /** Which columns hold bytes: as text, drivers would show those in some notation of theirs. */
    private static boolean[] binary(ResultSet rows) throws SQLException {
        ResultSetMetaData meta = rows.getMetaData();
        boolean[] binary = new boolean[meta.getColumnCount()];
        for (int column = 0; column < binary.length; column++) {
            switch (meta.getColumnType(column + 1)) {
                case Types.BINARY:
                case Types.VARBINARY:
                case Types.LONGVARBINARY:
                case Types.BLOB:
                    binary[column] = true;
                    break;
                default:
            }
        }
        return binary;
    }

    private void endTransaction() throws SQLException {
        transaction = false;
        if (autocommit) connection.setAutoCommit(true);
    }

    // ---- the connection

    /** The jars of each class path, loaded once. */
    private static final Map<List<String>, ClassLoader> LOADERS = new HashMap<>();

    private long connect(int fetchSize) throws Exception {
        String name = next();
        String url = next();
        String user = next();
        String password = next();
        String schema = next();
        autocommit = next().equals("true");
        long limit = Long.parseLong(next());
        int jars = Integer.parseInt(next());
        List<String> path = new ArrayList<>();
        for (int jar = 0; jar < jars; jar++) path.add(next());
        this.fetchSize = fetchSize;

        ClassLoader loader;
        synchronized (LOADERS) {
            loader = LOADERS.get(path);
            if (loader == null) {
                List<URL> urls = new ArrayList<>();
                for (String jar : path) urls.add(Paths.get(jar).toUri().toURL());
                loader = new URLClassLoader(urls.toArray(new URL[0]), Helper.class.getClassLoader());
                LOADERS.put(path, loader);
            }
        }
        quiet();
        // Drivers look for their parts with the loader of the thread.
        Thread.currentThread().setContextClassLoader(loader);
        Driver driver = driver(name, url, loader);
        Properties properties = new Properties();
        if (!user.isEmpty()) properties.setProperty("user", user);
        if (!password.isEmpty()) properties.setProperty("password", password);

        // On a thread of its own, because few drivers can be told to give up.
        ClassLoader context = loader;
        FutureTask<Connection> connecting = new FutureTask<>(() -> driver.connect(url, properties));
        daemon(() -> {
            Thread.currentThread().setContextClassLoader(context);
            connecting.run();
        });
        try {
            connection = connecting.get(limit, TimeUnit.MILLISECONDS);
        } catch (TimeoutException late) {
            connecting.cancel(true);
            throw new SQLTimeoutException("no connection within " + limit / 1000.0 + " s");
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof Error) throw (Error) failed.getCause();
            throw (Exception) failed.getCause();
        }
        if (connection == null) throw new NoSuchElementException(driver.getClass().getName());
        if (connection.getAutoCommit() != autocommit) connection.setAutoCommit(autocommit);
        if (!schema.isEmpty()) connection.setSchema(schema);
        return 0;
    }

    /** Some drivers log every failed operation to standard error; the results have them. */
    private static void quiet() {
        try {
            if (System.getProperty("java.util.logging.config.file") == null) {
                Logger.getLogger("").setLevel(Level.WARNING);
            }
        } catch (Throwable without) {
            // A Java runtime without the module java.logging.
        }
    }

    private static Driver driver(String name, String url, ClassLoader loader) throws Exception {
        if (!name.isEmpty()) {
            return (Driver) Class.forName(name, true, loader).getDeclaredConstructor().newInstance();
        }
        for (Driver driver : ServiceLoader.load(Driver.class, loader)) {
            if (driver.acceptsURL(url)) return driver;
        }
        throw new NoSuchElementException();
    }

    private static void daemon(Runnable job) {
        Thread thread = new Thread(job, "ycsb-trace jdbc");
        thread.setDaemon(true);
        thread.start();
    }

    // ---- deadlines

    private static final long NONE = 0;
    private static final long GIVEN_UP = -1;
    private static final long EPOCH = System.nanoTime();
    /** Connections whose operations have deadlines. */
    private static final Set<Helper> WATCHED = ConcurrentHashMap.newKeySet();
    private static boolean watching;

    /** When the operation under way is given up, by now(); NONE or GIVEN_UP. */
    private final AtomicLong deadline = new AtomicLong(NONE);
    private volatile Statement current;
    private Thread owner;

    private static long now() {
        return System.nanoTime() - EPOCH + 1;
    }

    private void begin(long left) {
        if (left <= 0) return;
        if (owner == null) {
            owner = Thread.currentThread();
            WATCHED.add(this);
            synchronized (WATCHED) {
                if (!watching) daemon(Helper::watch);
                watching = true;
            }
        }
        deadline.set(now() + left);
    }

    /** Was the operation given up? */
    private boolean end(long left) {
        if (left <= 0) return false;
        long limit = deadline.get();
        if (limit != GIVEN_UP && deadline.compareAndSet(limit, NONE)) return false;
        synchronized (deadline) {
            deadline.set(NONE);
        }
        Thread.interrupted();
        return true;
    }

    private static void watch() {
        for (;;) {
            LockSupport.parkNanos(2_000_000);
            long now = now();
            for (Helper helper : WATCHED) {
                long limit = helper.deadline.get();
                if (limit > 0 && now >= limit && helper.deadline.compareAndSet(limit, GIVEN_UP)) {
                    WATCHED.remove(helper);
                    daemon(helper::giveUp);
                }
            }
        }
    }

    /** Ends the connection, and with it the call that waits for an answer on it. */
    private void giveUp() {
        // In this order, because an interrupted thread closes the files of an embedded database; and on
        // to the next if the call still waits after 0.2 s: some drivers accept a request and ignore it.
        try {
            connection.abort(Runnable::run);
            if (hasEnded()) return;
        } catch (Throwable unsupported) {
            // H2's and HerdDB's.
        }
        try {
            Statement statement = current;
            if (statement != null) statement.cancel();
        } catch (Throwable unsupported) {
            // Then by force.
        }
        if (hasEnded()) return;
        synchronized (deadline) {
            if (deadline.get() == GIVEN_UP) owner.interrupt();
        }
    }

    /** Waits up to 0.2 s for the end of the call that was given up. */
    private boolean hasEnded() {
        for (int wait = 0; wait < 40 && deadline.get() == GIVEN_UP; wait++) LockSupport.parkNanos(5_000_000);
        return deadline.get() != GIVEN_UP;
    }

    // ---- what is asked before a run

    private long describe() throws SQLException {
        DatabaseMetaData meta = connection.getMetaData();
        buffer.clear();
        long count = 0;
        count += told("product", meta::getDatabaseProductName);
        count += told("version", meta::getDatabaseProductVersion);
        count += told("driver", meta::getDriverName);
        count += told("driver_version", meta::getDriverVersion);
        count += told("isolation", () -> String.valueOf(connection.getTransactionIsolation()));
        count += told("autocommit", () -> String.valueOf(connection.getAutoCommit()));
        count += told("java", () -> System.getProperty("java.vm.name") + " " + System.getProperty("java.version"));
        return count;
    }

    /** Name, count and milliseconds of each collector of garbage since the machine began. */
    private long collections() {
        buffer.clear();
        long count = 0;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            if (collector.getCollectionCount() < 0 || collector.getCollectionTime() < 0) continue;
            put(collector.getName());
            put(String.valueOf(collector.getCollectionCount()));
            put(String.valueOf(collector.getCollectionTime()));
            count++;
        }
        return count;
    }

    private int told(String name, Callable<String> value) {
        String text;
        try {
            text = value.call();
        } catch (Throwable unsupported) {
            return 0;
        }
        put(name);
        put(text);
        return 1;
    }

    /** Name, number of the type and name of the type of each column of an answer. */
    private long columns(String text) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(text)) {
            ResultSetMetaData meta = rows.getMetaData();
            int count = meta.getColumnCount();
            buffer.clear();
            for (int column = 1; column <= count; column++) {
                put(meta.getColumnName(column));
                put(String.valueOf(meta.getColumnType(column)));
                put(meta.getColumnTypeName(column));
            }
            return count;
        } finally {
            if (!autocommit) connection.rollback();
        }
    }

    /** How many tables have this name, in whatever case, in this schema or, without one, in ours. */
    private long tables(String schema, String name) throws SQLException {
        if (schema.isEmpty()) {
            try {
                schema = connection.getSchema();
            } catch (Throwable unsupported) {
                schema = null;
            }
        }
        long count = 0;
        try (ResultSet rows = connection.getMetaData().getTables(connection.getCatalog(), null, "%", null)) {
            while (rows.next()) {
                String in = rows.getString("TABLE_SCHEM");
                boolean here = schema == null || in == null || in.equalsIgnoreCase(schema);
                if (here && name.equalsIgnoreCase(rows.getString("TABLE_NAME"))) count++;
            }
        }
        return count;
    }

    // ---- the buffer

    private static ByteBuffer direct(int size) {
        return ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder());
    }

    private String next() {
        return text(buffer.getInt());
    }

    private String text(int length) {
        if (length == NULL) return null;
        if (scratch.length < length) scratch = new byte[Math.max(length, 2 * scratch.length)];
        buffer.get(scratch, 0, length);
        return new String(scratch, 0, length, StandardCharsets.UTF_8);
    }

    private void put(String text) {
        put(text == null ? null : text.getBytes(StandardCharsets.UTF_8));
    }

    private void put(byte[] bytes) {
        reserve(4 + (bytes == null ? 0 : bytes.length));
        if (bytes == null) {
            buffer.putInt(NULL);
        } else {
            buffer.putInt(bytes.length).put(bytes);
        }
    }

    private void reserve(int more) {
        if (buffer.remaining() >= more) return;
        long needed = (long) buffer.position() + more;
        if (needed > Integer.MAX_VALUE) throw new IllegalStateException("an answer of more than 2 GB");
        ByteBuffer larger = direct((int) Math.min(Math.max(needed, 2L * buffer.capacity()), Integer.MAX_VALUE));
        buffer.flip();
        larger.put(buffer);
        buffer = larger;
    }

    /**
     * Writes an error: vendor's code, 1 if the connection is closed, 1 if it came too late; SQLState,
     * the class of java.sql it is one of, its own class and those of its causes, its message.
     */
    private void tell(Throwable error, boolean late) {
        StringBuilder classes = new StringBuilder();
        StringBuilder message = new StringBuilder();
        int depth = 0;
        for (Throwable cause = error; cause != null && depth < 8; cause = cause.getCause(), depth++) {
            classes.append(depth == 0 ? "" : " ").append(cause.getClass().getName());
            String words = cause.getMessage();
            if (words != null && message.indexOf(words) < 0) {
                message.append(message.length() == 0 ? "" : ": ").append(words);
            }
        }
        String standard = "";
        for (Class<?> type = error.getClass(); type != null; type = type.getSuperclass()) {
            if (type.getName().startsWith("java.sql.")) {
                standard = type.getSimpleName();
                break;
            }
        }
        boolean closed = false;
        try {
            closed = late || connection != null && connection.isClosed();
        } catch (Throwable unknown) {
            // A connection that cannot even say that is not to be used.
            closed = true;
        }
        SQLException sql = error instanceof SQLException ? (SQLException) error : null;
        buffer.clear();
        reserve(12);
        buffer.putInt(sql == null ? 0 : sql.getErrorCode()).putInt(closed ? 1 : 0).putInt(late ? 1 : 0);
        put(sql == null || sql.getSQLState() == null ? "" : sql.getSQLState());
        put(standard);
        put(classes.toString());
        put(message.length() == 0 ? error.getClass().getName() : message.toString());
    }
}
