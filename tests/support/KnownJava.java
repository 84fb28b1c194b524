import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

/** Stacks that are known: what the tests of the agent expect of Java. KnownJava MODE [SECONDS]. */
public class KnownJava {
    static volatile long sink;
    static volatile boolean stop;

    interface Shape {
        long area(int n);
    }

    static class Square implements Shape {
        public long area(int n) {
            return leaf(n);
        }
    }

    static long leaf(int n) {
        long sum = 0;

        for (int i = 0; i < 40; i++)
            sum += i * (long) n ^ sum >> 3;
        return sum;
    }

    static long three(Shape shape, int n) {
        return shape.area(n) + leaf(n + 1);
    }

    static long two(Shape shape, int n, double a, double b, long c, long d, long e, long f) {
        return three(shape, n) + (long) (a * b) + c + d + e + f;
    }

    static synchronized long one(Shape shape, int n) {
        return two(shape, n, 1.5, n, 1, 2, 3, 4);
    }

    static long deep(int n) {
        return n == 0 ? one(new Square(), 7) : deep(n - 1) + 1;
    }

    /** main, chain, one, two, three, Square.area, leaf. */
    static void chain() {
        Shape shape = new Square();

        while (!stop)
            sink += one(shape, (int) sink & 15);
    }

    static void deepest() {
        while (!stop)
            sink += deep(400);
    }

    /** Allocation, hash maps, boxing, strings: stubs and the machine's own code below Java's. */
    static void mixed() {
        java.util.Map<String, Integer> counts = new java.util.HashMap<>();
        byte[] from = new byte[4096];

        while (!stop) {
            for (int i = 0; i < 2000; i++)
                counts.merge("key" + (i & 255), 1, Integer::sum);
            byte[] to = new byte[4096];
            System.arraycopy(from, 1, to, 0, 4095);
            sink += counts.hashCode() + to[7];
        }
    }

    /** Each look at a file: from Java by a native method into the kernel. */
    static void natives() throws Exception {
        Path path = Paths.get("/proc/self/cmdline");

        while (!stop)
            sink += Files.exists(path) ? 1 : 0;
    }

    static void run(String mode) throws Exception {
        switch (mode) {
            case "chain":
                chain();
                break;
            case "deep":
                deepest();
                break;
            case "mixed":
                mixed();
                break;
            case "natives":
                natives();
                break;
            default:
                throw new IllegalArgumentException(mode);
        }
    }

    static void work(String mode) {
        try {
            run(mode);
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    public static void main(String[] arguments) throws Exception {
        String mode = arguments[0];
        long seconds = Long.parseLong(arguments[1]);
        Thread end = new Thread(() -> {
            try {
                Thread.sleep(seconds * 1000);
            } catch (InterruptedException e) {
                return;
            }
            stop = true;
        });

        end.setDaemon(true);
        end.start();
        if (mode.equals("threads")) {
            for (String one : new String[] {"chain", "deep", "mixed"})
                new Thread(() -> work(one), one).start();
        }
        System.out.println(Files.readSymbolicLink(Paths.get("/proc/thread-self")));
        System.out.flush();
        if (!mode.equals("threads"))
            run(mode);
    }
}
