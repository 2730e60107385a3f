import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.Permission;

/**
 * Runs many of Cassandra's offline tools in one JVM, which starts slowly: each line of standard input is an output file, a class
 * and its arguments, divided by tabs. What a tool prints goes to its file; its exit status is the file's last line.
 */
public final class Tools {
  private static final class Exit extends SecurityException {
    final int status;

    Exit(int status) {
      super("exit");
      this.status = status;
    }
  }

  /** The file of the tool that runs. */
  private static final class Current extends OutputStream {
    OutputStream target = OutputStream.nullOutputStream();

    @Override
    public void write(int octet) throws IOException {
      target.write(octet);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      target.write(bytes, offset, length);
    }
  }

  private static final Current CURRENT = new Current();
  /** NodeTool prints to the stream that it finds when it is loaded. */
  private static final PrintStream OF_NODETOOL = stream();
  private static boolean finished;
  /** How the tool that runs wanted to end. */
  private static Exit first;

  private static PrintStream stream() {
    return new PrintStream(CURRENT, false, StandardCharsets.UTF_8);
  }

  @SuppressWarnings("removal")
  public static void main(String[] none) throws Exception {
    System.setSecurityManager(
        new SecurityManager() {
          @Override
          public void checkPermission(Permission permission) {}

          @Override
          public void checkPermission(Permission permission, Object context) {}

          @Override
          public void checkExit(int status) {
            if (!finished) {
              Exit exit = new Exit(status);
              // NodeTool takes the exit of a verb for a failure, and ends with another status.
              first = first == null ? exit : first;
              throw first;
            }
          }
        });
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] parts = line.split("\t");
      String[] arguments = new String[parts.length - 2];
      System.arraycopy(parts, 2, arguments, 0, arguments.length);
      int status;
      try (FileOutputStream file = new FileOutputStream(parts[0])) {
        CURRENT.target = file;
        PrintStream out = parts[1].equals("NodeTool") ? OF_NODETOOL : stream();
        System.setOut(out);
        System.setErr(out);
        first = null;
        status = run(parts[1], arguments);
        out.flush();
        CURRENT.target = OutputStream.nullOutputStream();
      }
      Files.writeString(Path.of(parts[0]), "\nexit " + status, StandardOpenOption.APPEND);
    }
    finished = true;
    Runtime.getRuntime().halt(0);
  }

  private static int run(String name, String[] arguments) {
    try {
      Class.forName("org.apache.cassandra.tools." + name).getMethod("main", String[].class).invoke(null, (Object) arguments);
      return 0;
    } catch (Throwable failed) {
      if (first != null) {
        return first.status;
      }
      failed.printStackTrace();
      return 1;
    }
  }
}
