import org.apache.kafka.server.common.MetadataVersion;

/**
 * Prints tests/wire/data/metadata-versions-3.9.1.tsv with Kafka's own class: every metadata.version, and what it allows.
 *
 * java -cp "$LIBS/*" MetadataVersions.java > metadata-versions-3.9.1.tsv
 * where LIBS is the folder that scripts/fetch-kafka.sh fills.
 */
public class MetadataVersions {
    public static void main(String[] args) {
        System.out.println("level\tname\tdid_metadata_change\tis_production\tis_leader_recovery_supported"
            + "\tis_no_op_record_supported\tis_broker_registration_change_record_supported"
            + "\tis_in_controlled_shutdown_state_supported\tis_migration_supported"
            + "\tis_scram_supported\tis_leader_epoch_bump_required_on_isr_shrink\tis_metadata_transaction_supported"
            + "\tis_delegation_token_supported\tis_controller_registration_supported"
            + "\tis_directory_assignment_supported\tis_elr_supported\tregister_broker_record_version"
            + "\tpartition_record_version\tpartition_change_record_version\tno_way_back_to");
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            if (!version.isKRaftSupported()) continue;
            StringBuilder lower = new StringBuilder();
            for (MetadataVersion other : MetadataVersion.VERSIONS)
                if (other.isKRaftSupported() && other.isLessThan(version) && MetadataVersion.checkIfMetadataChanged(version, other))
                    lower.append(lower.length() == 0 ? "" : ",").append(other.featureLevel());
            Object[] columns = {
                version.featureLevel(), version, version.didMetadataChange(), version.isProduction(),
                version.isLeaderRecoverySupported(), version.isNoOpRecordSupported(),
                version.isBrokerRegistrationChangeRecordSupported(), version.isInControlledShutdownStateSupported(),
                version.isMigrationSupported(), version.isScramSupported(),
                version.isLeaderEpochBumpRequiredOnIsrShrink(), version.isMetadataTransactionSupported(),
                version.isDelegationTokenSupported(), version.isControllerRegistrationSupported(),
                version.isDirectoryAssignmentSupported(), version.isElrSupported(), version.registerBrokerRecordVersion(),
                version.partitionRecordVersion(), version.partitionChangeRecordVersion(), lower};
            String line = "";
            for (Object column : columns) line += (line.isEmpty() ? "" : "\t") + column;
            System.out.println(line);
        }
    }
}
