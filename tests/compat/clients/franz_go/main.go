// What a user of franz-go does, told as one line of JSON; see tests/compat/test_other_clients.py.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const (
	records    = 1000
	partitions = 4
)

var (
	ctx    context.Context
	server string
	topic  string
	group  string
	told   = map[string]any{}
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// name is Kafka's name of an error, or NONE.
func name(err error) string {
	var known *kerr.Error
	switch {
	case err == nil:
		return "NONE"
	case errors.As(err, &known):
		return known.Message
	}
	return err.Error()
}

// secured says who we are and whom we trust, where the environment tells it: SASL_SSL, with PLAIN.
func secured() []kgo.Opt {
	user := os.Getenv("CLIENT_USER")
	if user == "" {
		return nil
	}
	pem, err := os.ReadFile(os.Getenv("CLIENT_CA"))
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	login := plain.Auth{User: user, Pass: os.Getenv("CLIENT_PASSWORD")}
	return []kgo.Opt{
		kgo.SASL(login.AsMechanism()),
		kgo.DialTLSConfig(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}),
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	options = append(options, secured()...)
	c, err := kgo.NewClient(append(options, kgo.SeedBrokers(strings.Split(server, ",")...))...)
	check(err)
	return c
}

func member(options ...kgo.Opt) *kgo.Client {
	return client(append(options,
		kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.SessionTimeout(6*time.Second),
	)...)
}

// read polls the members until there are so many records, and says whether they are all different.
func read(count int, members ...*kgo.Client) bool {
	seen := map[string]bool{}
	total := 0
	for total < count {
		for _, each := range members {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			fetches := each.PollFetches(short)
			cancel()
			check(ctx.Err())
			fetches.EachRecord(func(r *kgo.Record) {
				seen[string(r.Value)] = true
				total++
			})
		}
	}
	return total == count && len(seen) == count
}

func produce(word string, count int) {
	c := client(kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	defer c.Close()
	var all []*kgo.Record
	for i := range count {
		value := fmt.Appendf(nil, "%s %d", word, i)
		all = append(all, &kgo.Record{Value: value, Partition: int32(i % partitions)})
	}
	check(c.ProduceSync(ctx, all...).FirstErr())
}

func settled(admin *kadm.Client, state string, members int) kadm.DescribedGroup {
	for {
		described, err := admin.DescribeGroups(ctx, group)
		check(err)
		found := described[group]
		if found.State == state && len(found.Members) == members {
			return found
		}
		check(ctx.Err())
	}
}

func groups(admin *kadm.Client) {
	produce("first", records)
	one := member()
	told["read alone"] = read(records, one)
	check(one.CommitUncommittedOffsets(ctx))
	two := member()
	go two.PollFetches(ctx)
	found := settled(admin, "Stable", 2)
	told["protocol"] = found.Protocol
	told["delete live"] = name(deletion(admin))
	two.CloseAllowingRebalance()
	settled(admin, "Stable", 1)
	one.CloseAllowingRebalance()
	settled(admin, "Empty", 0)
	produce("second", 10)
	back := member()
	told["resumed"] = read(10, back)
	check(back.CommitUncommittedOffsets(ctx))
	back.Close()
	settled(admin, "Empty", 0)
}

func deletion(admin *kadm.Client) error {
	answer, err := admin.DeleteGroups(ctx, group)
	check(err)
	return answer[group].Err
}

func administration(admin *kadm.Client) {
	listed, err := admin.ListGroups(ctx)
	check(err)
	told["listed"] = listed[group].State
	stable, err := admin.ListGroups(ctx, "Stable")
	check(err)
	_, among := stable[group]
	told["among the stable"] = among
	offsets, err := admin.FetchOffsets(ctx, group)
	check(err)
	var at []int64
	offsets.Each(func(each kadm.OffsetResponse) { at = append(at, each.At) })
	slices.Sort(at)
	told["offsets"] = at
	var set kadm.TopicsSet
	set.Add(topic, 0)
	deleted, err := admin.DeleteOffsets(ctx, group, set)
	check(err)
	told["offset deleted"] = name(deleted.Error())
	told["deleted"] = name(deletion(admin))
	told["deleted again"] = name(deletion(admin))
	described, err := admin.DescribeGroups(ctx, group)
	check(err)
	told["described no more"] = []string{described[group].State, name(described[group].Err)}
}

func transactions() {
	name := topic + "-transactions"
	c := client(kgo.TransactionalID(name), kgo.DefaultProduceTopic(name), kgo.AllowAutoTopicCreation())
	defer c.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		check(c.BeginTransaction())
		for i := range 5 {
			value := fmt.Appendf(nil, "%v %d", end, i)
			check(c.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr())
		}
		check(c.EndTransaction(ctx, end))
	}
	reader := client(kgo.ConsumeTopics(name), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	var offsets []int64
	for len(offsets) < 5 {
		fetches := reader.PollFetches(ctx)
		check(ctx.Err())
		fetches.EachRecord(func(r *kgo.Record) { offsets = append(offsets, r.Offset) })
	}
	told["committed"] = offsets
}

func main() {
	server, topic, group = os.Args[1], os.Args[2], os.Args[3]
	limited, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx = limited
	admin := kadm.NewClient(client())
	defer admin.Close()
	created, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
	check(err)
	told["created"] = name(created.Err)
	_, err = admin.CreateTopic(ctx, partitions, 1, nil, topic)
	told["created again"] = name(err)
	groups(admin)
	administration(admin)
	transactions()
	check(json.NewEncoder(os.Stdout).Encode(told))
}
