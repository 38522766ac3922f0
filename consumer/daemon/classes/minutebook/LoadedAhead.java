package minutebook;

import java.util.Arrays;

/**
 * Runs the daemon of one stream once, for a class archive that also holds the classes of a fleet's daemon
 * (consumer/daemon/prepared/prepare.py).
 */
public final class LoadedAhead {
    private LoadedAhead() {}

    /** Arguments: classes to load, separated by commas, of which the last one is run with the other arguments. */
    public static void main(String[] args) throws Exception {
        Class<?> last = null;
        for (String name : args[0].split(",")) {
            last = Class.forName(name);
        }
        Object others = Arrays.copyOfRange(args, 1, args.length);
        last.getMethod("main", String[].class).invoke(null, others);
    }
}
