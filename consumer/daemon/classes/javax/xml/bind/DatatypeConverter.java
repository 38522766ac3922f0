package javax.xml.bind;

import java.util.Base64;

/**
 * The one method of a class that Java 11 removed and KCL still calls, when it logs an aggregate that it cannot read.
 * Without it that log line ends in a NoClassDefFoundError and takes the whole batch with it:
 * docs/decisions/0015-poison-aggregates.md.
 *
 * <p>The class file beside this source is what the daemon gets, behind KCL's jars: a real jaxb-api wins.
 * {@code make classes} compiles it.
 */
public final class DatatypeConverter {
    private DatatypeConverter() {}

    /** Returns the bytes in base64, padded, on one line. */
    public static String printBase64Binary(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
