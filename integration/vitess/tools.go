//go:build tools

// Package tools names the programs that the tests run, so that go.mod has what they are built from.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "vitess.io/vitess/go/cmd/vtctld"
	_ "vitess.io/vitess/go/cmd/vtctldclient"
	_ "vitess.io/vitess/go/cmd/vtgate"
	_ "vitess.io/vitess/go/cmd/vttablet"
)
