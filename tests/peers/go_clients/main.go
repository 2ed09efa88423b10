// Three clients in Go, each with what it has: sarama in the protocol of four Kafka versions, kafka-go, franz-go.
// Argument: the bootstrap servers. Prints what each call gives, without what differs between any two clusters.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

func show(what string, values ...any) {
	fmt.Printf("%s: %s\n", what, strings.TrimSpace(fmt.Sprintln(values...)))
}

func main() {
	servers := strings.Split(os.Args[1], ",")
	for _, version := range []sarama.KafkaVersion{sarama.V0_10_2_0, sarama.V1_1_0_0, sarama.V2_8_0_0, sarama.V3_6_0_0} {
		useSarama(servers, version)
	}
	context, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	useKafkaGo(context, servers)
	useFranzGo(context, servers)
}

// Waits until every broker knows so many partitions of the topic: a client may ask any of them.
func waitKnown(servers []string, topic string, partitions int) {
	for _, server := range servers {
		known := 0
		for end := time.Now().Add(patience); known < partitions && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if connection, err := kafka.Dial("tcp", server); err == nil {
				found, _ := connection.ReadPartitions(topic)
				known = len(found)
				connection.Close()
			}
		}
	}
}

// A member of a group, which leaves it after so many records.
type member struct {
	records, wanted int
	leave           func()
}

func (*member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "metadata")
		m.records++
		if m.records == m.wanted {
			session.Commit()
			m.leave()
			return nil
		}
	}
	return nil
}

func useSarama(servers []string, version sarama.KafkaVersion) {
	config := sarama.NewConfig()
	config.Version = version
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	config.Net.MaxOpenRequests = 1
	hasHeaders := version.IsAtLeast(sarama.V0_11_0_0)
	config.Producer.Idempotent = hasHeaders
	topic := "sarama-" + version.String()
	group := "group-" + topic
	admin, err := sarama.NewClusterAdmin(servers, config)
	show("sarama "+version.String(), err)
	defer admin.Close()
	detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}
	show("create", admin.CreateTopic(topic, detail, false))
	show("create again", admin.CreateTopic(topic, detail, false))

	waitKnown(servers, topic, 3)
	producer, err := sarama.NewSyncProducer(servers, config)
	show("producer", err)
	for number := 0; number < 30; number++ {
		key := sarama.StringEncoder(fmt.Sprint(number))
		message := &sarama.ProducerMessage{Topic: topic, Key: key, Value: sarama.StringEncoder("value")}
		if hasHeaders {
			message.Headers = []sarama.RecordHeader{{Key: []byte("header"), Value: []byte("1")}}
		}
		if _, _, err := producer.SendMessage(message); err != nil {
			show("send", err)
		}
	}
	show("closed", producer.Close())

	context, leave := context.WithTimeout(context.Background(), patience)
	consumer, err := sarama.NewConsumerGroup(servers, group, config)
	show("consumer", err)
	reader := &member{wanted: 30, leave: leave}
	for context.Err() == nil {
		if err := consumer.Consume(context, []string{topic}, reader); err != nil {
			show("consume", err)
			break
		}
	}
	show("consumed", reader.records, consumer.Close())

	if hasHeaders {
		described, err := admin.DescribeConsumerGroups([]string{group})
		show("group", err, described[0].State, described[0].ProtocolType, described[0].Err)
		offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}})
		var sum int64
		for _, block := range offsets.Blocks[topic] {
			sum += block.Offset
		}
		show("offsets", err, sum, offsets.Blocks[topic][0].Metadata)
		show("partitions", admin.CreatePartitions(topic, 4, nil, false))
		waitKnown(servers, topic, 4)
		resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}
		entries, err := admin.DescribeConfig(resource)
		show("config", err, entries[0].Name, entries[0].Value, entries[0].Default, entries[0].Source)
		show("delete records", admin.DeleteRecords(topic, map[int32]int64{0: 1}))
		show("delete groups", admin.DeleteConsumerGroup(group), admin.DeleteConsumerGroup("none"))
	}
	if version.IsAtLeast(sarama.V2_8_0_0) {
		administer(admin, topic)
		transact(servers, *config, topic)
	}
	show("delete", admin.DeleteTopic(topic), admin.DeleteTopic("none"))
}

func administer(admin sarama.ClusterAdmin, topic string) {
	retention := "5000"
	set := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention}
	altered := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": set}
	show("alter", admin.IncrementalAlterConfig(sarama.TopicResource, topic, altered, false))
	show("reassign", admin.AlterPartitionReassignments(topic, [][]int32{{1, 2}, {2, 3}, {3, 1}, {1, 3}}))
	_, err := admin.DescribeLogDirs([]int32{1, 2, 3})
	show("log dirs", err)
	user := sarama.QuotaEntityComponent{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: "alice"}
	rate := sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1e6}
	show("alter quota", admin.AlterClientQuotas([]sarama.QuotaEntityComponent{user}, rate, false))
	filter := sarama.QuotaFilterComponent{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "alice"}
	quotas, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{filter}, true)
	show("quotas", err, len(quotas), quotas[0].Values)
	scram := sarama.AlterUserScramCredentialsUpsert{
		Name: "alice", Mechanism: sarama.SCRAM_MECHANISM_SHA_512, Iterations: 8192, Salt: []byte("salt"), Password: []byte("pencil"),
	}
	results, err := admin.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{scram})
	show("upsert scram", err, results[0].ErrorCode)
	users, err := admin.DescribeUserScramCredentials([]string{"alice"})
	show("scram", err, users[0].User, users[0].CredentialInfos[0].Iterations)
	every := sarama.AclFilter{
		ResourceType: sarama.AclResourceAny, Operation: sarama.AclOperationAny,
		PermissionType: sarama.AclPermissionAny, ResourcePatternTypeFilter: sarama.AclPatternAny,
	}
	_, err = admin.ListAcls(every)
	show("acls", err)
}

func transact(servers []string, config sarama.Config, topic string) {
	config.Producer.Transaction.ID = "transaction-" + topic
	producer, err := sarama.NewSyncProducer(servers, &config)
	show("transactional producer", err)
	for number := 0; number < 4; number++ {
		show("begin", producer.BeginTxn())
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("value")})
		show("send", err)
		if number%2 == 0 {
			show("commit", producer.CommitTxn())
		} else {
			show("abort", producer.AbortTxn())
		}
	}
	show("closed", producer.Close())
}

func useKafkaGo(context context.Context, servers []string) {
	connection, err := kafka.DialContext(context, "tcp", servers[0])
	show("kafka-go", err)
	found, err := connection.Controller()
	show("controller", err)
	controller, err := kafka.DialContext(context, "tcp", fmt.Sprintf("%s:%d", found.Host, found.Port))
	show("dial", err)
	topic := kafka.TopicConfig{Topic: "kafka-go", NumPartitions: 2, ReplicationFactor: 3}
	show("create", controller.CreateTopics(topic))
	waitKnown(servers, topic.Topic, 2)
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		writer := &kafka.Writer{
			Addr: kafka.TCP(servers...), Topic: "kafka-go", RequiredAcks: kafka.RequireAll, Compression: codec,
			BatchTimeout: 10 * time.Millisecond, Balancer: &kafka.Hash{},
		}
		var messages []kafka.Message
		for number := 0; number < 20; number++ {
			headers := []kafka.Header{{Key: "header", Value: []byte("1")}}
			messages = append(messages, kafka.Message{Key: []byte(fmt.Sprint(number)), Value: []byte("value"), Headers: headers})
		}
		show("write "+codec.String(), writer.WriteMessages(context, messages...), writer.Close())
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: servers, GroupID: "group-kafka-go", Topic: "kafka-go", MaxWait: 200 * time.Millisecond,
		StartOffset: kafka.FirstOffset,
	})
	for number := 1; number <= 100; number++ {
		message, err := reader.FetchMessage(context)
		if err != nil {
			show("fetch", err)
			break
		}
		if number%50 == 0 {
			show("commit", number, reader.CommitMessages(context, message))
		}
	}
	show("closed", reader.Close())
	client := &kafka.Client{Addr: kafka.TCP(servers...)}
	asked := map[string][]kafka.OffsetRequest{"kafka-go": {kafka.LastOffsetOf(0), kafka.LastOffsetOf(1)}}
	offsets, err := client.ListOffsets(context, &kafka.ListOffsetsRequest{Topics: asked})
	var sum int64
	for _, offset := range offsets.Topics["kafka-go"] {
		sum += offset.LastOffset
	}
	show("offsets", err, sum)
}

func useFranzGo(context context.Context, servers []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...))
	show("franz-go", err)
	admin := kadm.NewClient(client)
	versions, err := admin.ApiVersions(context)
	ofOne := versions[1]
	show("api versions", err, len(versions), ofOne.VersionGuess())
	retention := map[string]*string{"retention.ms": kadm.StringPtr("7000000")}
	_, err = admin.CreateTopic(context, 3, 3, retention, "franz-go")
	show("create", err)
	waitKnown(servers, "franz-go", 3)
	record := &kgo.Record{Topic: "franz-go", Value: []byte("value")}
	show("produce", client.ProduceSync(context, record).FirstErr())
	first, err := admin.ListStartOffsets(context, "franz-go")
	show("start offsets", err, len(first["franz-go"]))
	ends, err := admin.ListEndOffsets(context, "franz-go")
	var sum int64
	ends.Each(func(end kadm.ListedOffset) { sum += end.Offset })
	show("end offsets", err, sum)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: "franz-go", Partition: record.Partition, At: 1, LeaderEpoch: -1})
	_, err = admin.CommitOffsets(context, "group-franz-go", offsets)
	show("commit", err)
	lags, err := admin.Lag(context, "group-franz-go")
	show("lag", err, lags["group-franz-go"].State, lags["group-franz-go"].Lag.Total())
	groups, err := admin.DescribeGroups(context, "group-franz-go", "none")
	show("groups", err, groups["group-franz-go"].State, groups["none"].State, groups["none"].Err)
	elected, err := admin.ElectLeaders(context, kadm.ElectPreferredReplica, kadm.TopicsSet{"franz-go": {0: {}}})
	show("elect", err, elected["franz-go"][0].Err, elected["franz-go"][0].ErrMessage)
	var moves kadm.AlterPartitionAssignmentsReq
	moves.Assign("franz-go", 0, []int32{1, 2})
	moved, err := admin.AlterPartitionAssignments(context, moves)
	show("assign", err, moved["franz-go"][0].Err)
	folders, err := admin.DescribeAllLogDirs(context, nil)
	show("log dirs", err, len(folders))
	transactions, err := admin.ListTransactions(context, nil, nil)
	show("transactions", err, len(transactions))
	producers, err := admin.DescribeProducers(context, kadm.TopicsSet{"franz-go": {0: {}, 1: {}, 2: {}}})
	show("producers", err, len(producers["franz-go"].Partitions))
	rule := kadm.NewACLs().Allow("User:alice").AllowHosts().Topics("franz-go").Operations(kadm.OpRead)
	created, err := admin.CreateACLs(context, rule.ResourcePatternType(kadm.ACLPatternLiteral))
	show("create acl", err, created[0].Err, created[0].ErrMessage)
	_, err = admin.CreateDelegationToken(context, kadm.CreateDelegationToken{})
	show("create token", err)
	deleted, err := admin.DeleteTopics(context, "franz-go", "kafka-go")
	show("delete", err, len(deleted), deleted.Error())
}
