// Package example shows franz-go going on through another controller, a killed leader, and errors that the kit makes.
package example

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafkacluster"
)

var cluster *kafkacluster.Cluster

// One cluster for all tests.
func TestMain(m *testing.M) {
	server, err := kafkacluster.Start(kafkacluster.Options{})
	if err == nil {
		cluster, err = server.CreateCluster(context.Background(), kafkacluster.ClusterSettings{Brokers: 3})
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		println(err.Error())
	}
	if server != nil {
		_ = server.Close()
	}
	os.Exit(code)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options,
		kgo.SeedBrokers(strings.Split(cluster.BootstrapServers, ",")...),
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	made := must[*kgo.Client](t)(kgo.NewClient(options...))
	t.Cleanup(made.Close)
	return made
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestRecordsSurviveAnotherControllerAndAKilledLeader(t *testing.T) {
	ctx := within(t)
	check(t, cluster.CreateTopic(ctx, "orders", kafkacluster.TopicSettings{Partitions: 1, ReplicationFactor: 3}))
	must[[]int](t)(cluster.WaitISR(ctx, "orders", 0, nil, 0))
	producer := client(t, kgo.DefaultProduceTopic("orders"))
	send := func(value string) {
		check(t, producer.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
	}
	send("before")

	before := must[kafkacluster.ClusterState](t)(cluster.Describe(ctx))
	elected := must[kafkacluster.Controller](t)(cluster.ElectController(ctx, 0))
	if elected.Epoch <= before.ControllerEpoch {
		t.Fatalf("epoch %d follows %d", elected.Epoch, before.ControllerEpoch)
	}
	send("under another controller")

	leader := must[int](t)(cluster.WaitLeader(ctx, "orders", 0, nil, 0))
	check(t, cluster.Kill(ctx, leader))
	check(t, cluster.ExpireSession(ctx, leader))
	others := slices.DeleteFunc(slices.Clone(cluster.BrokerIDs), func(each int) bool { return each == leader })
	must[int](t)(cluster.WaitLeader(ctx, "orders", 0, others, 0))
	send("under another leader")

	consumer := client(t, kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var values []string
	for !slices.Contains(values, "under another leader") {
		fetches := consumer.PollFetches(ctx)
		check(t, ctx.Err())
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	want := []string{"before", "under another controller", "under another leader"}
	if !slices.Equal(values, want) {
		t.Fatalf("read %q", values)
	}

	check(t, cluster.Start(ctx, leader))
	must[[]int](t)(cluster.WaitISR(ctx, "orders", 0, nil, 0))
	check(t, cluster.EpochsMonotonic(ctx))
}

func TestAProducerTriesAgainAfterAnError(t *testing.T) {
	ctx := within(t)
	check(t, cluster.CreateTopic(ctx, "refused", kafkacluster.TopicSettings{}))
	fault := must[*kafkacluster.Fault](t)(
		cluster.Fail(ctx, "Produce", "NOT_LEADER_OR_FOLLOWER", kafkacluster.Requests{Topic: "refused", Times: 2}),
	)

	record := must[*kgo.Record](t)(client(t).ProduceSync(ctx, &kgo.Record{Topic: "refused", Value: []byte("once")}).First())

	if count := must[int](t)(fault.Remove(ctx)); record.Offset != 0 || count != 2 {
		t.Fatalf("offset %d after %d errors", record.Offset, count)
	}
}

func TestAWaitThatDoesNotComeSaysWhatItSaw(t *testing.T) {
	_, err := cluster.WaitRegistered(within(t), []int{1}, 1<<40, 200*time.Millisecond)

	var refused *kafkacluster.Error
	if !errors.As(err, &refused) || refused.Status != 504 || !strings.Contains(refused.Message, "not within 0.2 s: brokers") {
		t.Fatalf("%v", err)
	}
}

func TestAMistakeIsAnsweredWithTheFieldAtFault(t *testing.T) {
	ctx := within(t)
	_, err := cluster.Delay(ctx, "Produce", -time.Second, kafkacluster.Requests{})

	var refused *kafkacluster.Error
	if !errors.As(err, &refused) || refused.Status != 400 || refused.Field != "delay_ms" {
		t.Fatalf("%v", err)
	}
	if err = cluster.Kill(ctx, 9); !errors.As(err, &refused) || refused.Status != 404 {
		t.Fatalf("%v", err)
	}
}

func TestALedgerLosesNothingThatWasAcknowledged(t *testing.T) {
	ctx := within(t)
	check(t, cluster.CreateTopic(ctx, "payments", kafkacluster.TopicSettings{}))
	must[[]int](t)(cluster.WaitISR(ctx, "payments", 0, nil, 0))
	ledger := must[*kafkacluster.Ledger](t)(cluster.Ledger(ctx, "payments", 0))
	check(t, ledger.StartProducing(ctx))
	check(t, cluster.Bounce(ctx, must[int](t)(cluster.WaitLeader(ctx, "payments", 0, nil, 0)), false))
	must[kafkacluster.LedgerState](t)(ledger.StopProducing(ctx))

	check(t, cluster.NoAcknowledgedRecordLost(ctx, ledger))
}
