// Reads a range of MySQL's binlog by go-mysql's replication client, decodes each event with all its rows, and does
// nothing with them. It prints how many rows events have brought, and the processor time that the process used from
// asking for the stream to the last transaction of the range. Standard input: the JSON of `asked`.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

type asked struct {
	Host     string
	Port     uint16
	User     string
	Password string
	After    string // GTIDs that the range leaves out
	Until    string // GTIDs of which the stream has all at the end of the range
	Server   uint32 // server_id: no other replica of that MySQL may have it
}

type found struct {
	Seconds float64 `json:"seconds"`
	Rows    int     `json:"rows"`
}

func main() {
	got, err := read()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		os.Exit(1)
	}
}

func read() (found, error) {
	var wanted asked
	var got found
	if err := json.NewDecoder(os.Stdin).Decode(&wanted); err != nil {
		return got, err
	}
	after, err := mysql.ParseMysqlGTIDSet(wanted.After)
	if err != nil {
		return got, err
	}
	until, err := mysql.ParseMysqlGTIDSet(wanted.Until)
	if err != nil {
		return got, err
	}
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: wanted.Server,
		Host:     wanted.Host,
		Port:     wanted.Port,
		User:     wanted.User,
		Password: wanted.Password,
		Logger:   slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	defer syncer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	began := used()
	stream, err := syncer.StartSyncGTID(after)
	if err != nil {
		return got, err
	}
	for {
		event, err := stream.GetEvent(ctx)
		if err != nil {
			return got, err
		}
		switch body := event.Event.(type) {
		case *replication.RowsEvent:
			got.Rows += len(body.Rows)
		case *replication.XIDEvent:
			if body.GSet.Contain(until) {
				got.Seconds = used() - began
				return got, nil
			}
		}
	}
}

// used is the processor time of all threads of this process so far, in seconds.
func used() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func seconds(value syscall.Timeval) float64 {
	return float64(value.Sec) + float64(value.Usec)/1e6
}
