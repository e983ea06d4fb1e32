// Command kadm lists or describes all groups of a cluster with franz-go's admin client.
//
// It is a peer of the benchmark: a cold program that prints what kafka-consumer-groups prints, as far as
// the two can be compared: names, or a line for each partition with its offset, the log's end and the lag.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if len(os.Args) != 3 || (os.Args[2] != "list" && os.Args[2] != "describe") {
		fmt.Fprintln(os.Stderr, "usage: kadm HOST:PORT list|describe")
		os.Exit(2)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	check(err)
	defer client.Close()
	admin := kadm.NewClient(client)
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	defer out.Flush()

	groups, err := admin.ListGroups(context.Background())
	check(err)
	if os.Args[2] == "list" {
		for _, name := range groups.Groups() {
			fmt.Fprintln(out, name)
		}
		return
	}
	lags, err := admin.Lag(context.Background(), groups.Groups()...)
	check(err)
	for _, group := range lags.Sorted() {
		check(group.Error())
		for _, row := range group.Lag.Sorted() {
			fmt.Fprintln(out, group.Group, row.Topic, row.Partition, row.Commit.At, row.End.Offset, row.Lag)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "kadm:", err)
		os.Exit(1)
	}
}
