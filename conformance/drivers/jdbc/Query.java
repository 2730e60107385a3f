import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;

/** Prints the tables of keyspace `fl`, a line each, and the rows of a statement: names of columns first, tabs between. */
public class Query {
    public static void main(String[] args) throws Exception {
        String url = "jdbc:arrow-flight-sql://" + args[0] + ":" + args[1] + "/?" + (args.length > 3 ? args[3] : "useEncryption=false");
        try (Connection connection = DriverManager.getConnection(url)) {
            try (ResultSet tables = connection.getMetaData().getTables(null, "fl", "%", null)) {
                while (tables.next()) {
                    System.out.println(tables.getString("TABLE_SCHEM") + "." + tables.getString("TABLE_NAME"));
                }
            }
            try (ResultSet rows = connection.createStatement().executeQuery(args[2])) {
                ResultSetMetaData columns = rows.getMetaData();
                StringBuilder line = new StringBuilder();
                for (int i = 1; i <= columns.getColumnCount(); i++) {
                    line.append(i > 1 ? "\t" : "").append(columns.getColumnName(i));
                }
                System.out.println(line);
                while (rows.next()) {
                    line.setLength(0);
                    for (int i = 1; i <= columns.getColumnCount(); i++) {
                        line.append(i > 1 ? "\t" : "").append(rows.getObject(i));
                    }
                    System.out.println(line);
                }
            }
        }
    }
}
