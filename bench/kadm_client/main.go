// Command kadm_client measures franz-go's admin client: an order per line on stdin, an answer in JSON on
// stdout. See client_contestants.py, whose contestants take the same orders.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type told struct {
	Ms       float64 `json:"ms"`
	Requests int64   `json:"requests"`
	Groups   int     `json:"groups"`
	Rows     int     `json:"rows"`
	Lag      int64   `json:"lag"`
}

type counter struct{ sent atomic.Int64 }

func (c *counter) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key != 18 { // ApiVersions, the greeting of a connection
		c.sent.Add(1)
	}
}

var _ kgo.HookBrokerWrite = new(counter)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kadm_client HOST:PORT")
		os.Exit(2)
	}
	count := new(counter)
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), kgo.WithHooks(count))
	check(err)
	defer client.Close()
	admin := kadm.NewClient(client)
	orders := bufio.NewScanner(os.Stdin)
	orders.Buffer(nil, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for orders.Scan() {
		before, begin := count.sent.Load(), time.Now()
		answer := obey(admin, strings.Fields(orders.Text()))
		answer.Ms = float64(time.Since(begin).Microseconds()) / 1000
		answer.Requests = count.sent.Load() - before
		check(answers.Encode(answer))
	}
}

func obey(admin *kadm.Client, order []string) told {
	ctx := context.Background()
	switch order[0] {
	case "list":
		groups, err := admin.ListGroups(ctx, order[1:]...)
		check(err)
		return told{Groups: len(groups)}
	case "describe":
		return describe(ctx, admin)
	case "lag":
		groups, err := admin.ListGroups(ctx)
		check(err)
		lags, err := admin.Lag(ctx, groups.Groups()...)
		check(err)
		answer := told{}
		for _, group := range lags {
			if group.Error() != nil { // of a kind that Lag does not describe
				continue
			}
			answer.Groups++
			for _, rows := range group.Lag {
				answer.Rows += len(rows)
			}
			answer.Lag += group.Lag.Total()
		}
		return answer
	default:
		deleted, err := admin.DeleteGroups(ctx, order[1:]...)
		check(err)
		check(deleted.Error())
		return told{Groups: len(deleted)}
	}
}

// A listed group has no type here, so groups that are not classic are described in a second turn.
func describe(ctx context.Context, admin *kadm.Client) told {
	groups, err := admin.ListGroups(ctx)
	check(err)
	described, err := admin.DescribeGroups(ctx, groups.Groups()...)
	check(err)
	var others []string
	answer := told{}
	for name, group := range described {
		if group.Err != nil || group.State == "Dead" {
			others = append(others, name)
			continue
		}
		answer.Groups++
		answer.Rows += len(group.Members)
	}
	if len(others) > 0 {
		newer, err := admin.DescribeConsumerGroups(ctx, others...)
		check(err)
		for _, group := range newer {
			check(group.Err)
			answer.Groups++
			answer.Rows += len(group.Members)
		}
	}
	return answer
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "kadm_client:", err)
		os.Exit(1)
	}
}
