package kafkacluster;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/** The tests of this class share a cluster: their methods and the constructor may take a {@link KafkaCluster}. */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(KafkaClusterExtension.class)
public @interface KafkaClusterTest {
    int brokers() default 3;

    /** {@code shared}: one for all clusters of a run; {@code embedded}; {@code HOST:PORT/CHROOT}. */
    String zookeeper() default "shared";

    /** {@code plaintext}, {@code tls}, {@code sasl}, {@code sasl_tls}, {@code oauth}, {@code oauth_tls}. */
    String listeners() default "plaintext";

    /** {@code KEY=VALUE} of every server.properties. */
    String[] configs() default {};
}
