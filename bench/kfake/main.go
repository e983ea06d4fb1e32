// Command kfake serves franz-go's fake Kafka cluster on one port until it is told to stop.
//
// It is a peer of the benchmark: with -data every change of a group is written and synced before it is
// acknowledged, without it all is kept in memory.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 0, "the port to listen on; 0 takes a free one")
	data := flag.String("data", "", "a directory to keep everything in, synced; empty for memory")
	flag.Parse()

	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(*port),
		kfake.GroupMaxSessionTimeout(30 * time.Minute), // as Kafka has it
	}
	if *data != "" {
		options = append(options, kfake.DataDir(*data), kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println("kfake is ready:", cluster.ListenAddrs()[0])

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}
