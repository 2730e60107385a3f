import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
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

  private static boolean finished;

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
              throw new Exit(status);
            }
          }
        });
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] parts = line.split("\t");
      String[] arguments = new String[parts.length - 2];
      System.arraycopy(parts, 2, arguments, 0, arguments.length);
      int status;
      try (PrintStream out = new PrintStream(new FileOutputStream(parts[0]), false, "UTF-8")) {
        System.setOut(out);
        System.setErr(out);
        status = run(parts[1], arguments);
      }
      // Some tools close the stream they print to.
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
      for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
        if (cause instanceof Exit) {
          return ((Exit) cause).status;
        }
      }
      failed.printStackTrace();
      return 1;
    }
  }
}
