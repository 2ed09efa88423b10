package kafkacluster;

/** What the server refused, or what did not come in time ({@code error} is {@code not_in_time}). */
public final class KafkaClusterException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The HTTP status; 0 if there was no answer. */
    public final int status;
    /** A code of docs/serve.md. */
    public final String error;
    /** The field at fault, or null. */
    public final String field;

    KafkaClusterException(int status, String error, String message, String field) {
        super(error + (field == null ? "" : " (" + field + ")") + ": " + message);
        this.status = status;
        this.error = error;
        this.field = field;
    }

    KafkaClusterException(String message, Throwable cause) {
        super(message, cause);
        this.status = 0;
        this.error = "no_answer";
        this.field = null;
    }
}
