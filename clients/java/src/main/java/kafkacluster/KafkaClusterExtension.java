package kafkacluster;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestWatcher;

/** One server for a run, one cluster for each class with {@link KafkaClusterTest}; both end by themselves. */
public final class KafkaClusterExtension implements ParameterResolver, TestWatcher {
    private static final Namespace NAMESPACE = Namespace.create(KafkaClusterExtension.class);

    private record OwnServer(KafkaClusterServer server) implements Store.CloseableResource {
        @Override
        public void close() {
            server.close();
        }
    }

    private static final class OwnCluster implements Store.CloseableResource {
        private final KafkaCluster cluster;
        private boolean hasFailed;

        private OwnCluster(KafkaCluster cluster) {
            this.cluster = cluster;
        }

        @Override
        public void close() {
            if (hasFailed) {
                cluster.writeArtefacts();
            }
            String kept = cluster.close(hasFailed);
            if (kept != null) {
                System.err.println("logs, state changes and journal of the cluster: " + kept);
            }
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == KafkaCluster.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> test = context.getRequiredTestClass();
        OwnServer server = context.getRoot()
                .getStore(NAMESPACE)
                .getOrComputeIfAbsent(
                        OwnServer.class, key -> new OwnServer(KafkaClusterServer.start()), OwnServer.class);
        return storeOfClass(context)
                .getOrComputeIfAbsent(
                        test, key -> new OwnCluster(server.server().createCluster(settings(test))), OwnCluster.class)
                .cluster;
    }

    @Override
    public void testFailed(ExtensionContext context, Throwable cause) {
        OwnCluster own = storeOfClass(context).get(context.getRequiredTestClass(), OwnCluster.class);
        if (own != null) {
            own.hasFailed = true;
        }
    }

    private static Store storeOfClass(ExtensionContext context) {
        ExtensionContext found = context;
        while (found.getTestMethod().isPresent() && found.getParent().isPresent()) {
            found = found.getParent().get();
        }
        return found.getStore(NAMESPACE);
    }

    private static Map<String, Object> settings(Class<?> test) {
        KafkaClusterTest wanted = test.getAnnotation(KafkaClusterTest.class);
        if (wanted == null) {
            return Map.of();
        }
        Map<String, String> configs = new HashMap<>();
        for (String line : wanted.configs()) {
            int equals = line.indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("configs: " + line + " is not KEY=VALUE");
            }
            configs.put(line.substring(0, equals), line.substring(equals + 1));
        }
        return Map.of(
                "brokers", wanted.brokers(),
                "zookeeper", wanted.zookeeper(),
                "listeners", wanted.listeners(),
                "configs", configs);
    }
}
