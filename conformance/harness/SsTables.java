import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.io.sstable.CQLSSTableWriter;

/**
 * Writes SSTables with Cassandra's CQLSSTableWriter, many in one JVM. Each line of standard input is a word and its arguments,
 * divided by tabs:
 *
 * <pre>
 * type STATEMENT                    a CREATE TYPE for the tables that follow
 * table DIR FORMAT STATEMENT        a CREATE TABLE; its files go to DIR, as big or bti
 * writer STATEMENT                  an INSERT, UPDATE or DELETE: one SSTable (or more) for the rows that follow
 * row VALUE...                      what the statement's markers stand for: hexadecimal, `null`, or `-` for no bytes
 * close                             finishes the SSTable
 * </pre>
 *
 * `done` is printed at the end. Releases before 5.0 know `big` only, in their own version.
 */
public final class SsTables {
  public static void main(String[] none) {
    int status = 0;
    try {
      write();
      System.out.println("done");
    } catch (Throwable failed) {
      failed.printStackTrace();
      status = 1;
    }
    System.out.flush();
    // Some of Cassandra's threads outlive the last writer.
    Runtime.getRuntime().halt(status);
  }

  private static void write() throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    List<String> types = new ArrayList<>();
    String[] table = null;
    CQLSSTableWriter writer = null;
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split("\t", -1);
      switch (words[0]) {
        case "type":
          types.add(words[1]);
          break;
        case "table":
          table = words;
          new File(words[1]).mkdirs();
          break;
        case "writer":
          writer = open(table, types, words[1]);
          break;
        case "row":
          List<ByteBuffer> values = new ArrayList<>();
          for (int i = 1; i < words.length; i++) {
            values.add(value(words[i]));
          }
          writer.rawAddRow(values);
          break;
        case "close":
          writer.close();
          break;
        default:
          throw new IllegalArgumentException(line);
      }
    }
  }

  private static CQLSSTableWriter open(String[] table, List<String> types, String statement) throws Exception {
    CQLSSTableWriter.Builder builder = CQLSSTableWriter.builder().inDirectory(table[1]);
    for (String type : types) {
      builder.withType(type);
    }
    if (table[2].equals("bti")) {
      Object format =
          Class.forName("org.apache.cassandra.io.sstable.format.bti.BtiFormat").getConstructor(Map.class).newInstance(Map.of());
      for (Method method : builder.getClass().getMethods()) {
        if (method.getName().equals("withFormat")) {
          method.invoke(builder, format);
        }
      }
    }
    return builder.forTable(table[3]).using(statement).build();
  }

  private static ByteBuffer value(String text) {
    if (text.equals("null")) {
      return null;
    }
    if (text.equals("-")) {
      return ByteBuffer.allocate(0);
    }
    byte[] bytes = new byte[text.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
    }
    return ByteBuffer.wrap(bytes);
  }
}
