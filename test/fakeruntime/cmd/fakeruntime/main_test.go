package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/test/fakeruntime"
)

func TestRunServesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"--stages=reading=1h"}, in) }()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(strings.TrimSpace(url) + fakeruntime.PathReport)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("report: %d", resp.StatusCode)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run = %v", err)
	}
}

func TestParseStages(t *testing.T) {
	t.Parallel()
	running := func(stage string) runtimeapi.TaskStatus {
		return runtimeapi.TaskStatus{Status: runtimeapi.StatusRunning, Stage: stage}
	}
	got, err := parseStages("reading=50ms,writing=1s")
	want := []fakeruntime.Step{
		{Status: running("compile: reading")},
		{After: 50 * time.Millisecond, Status: running("compile: writing")},
		{After: time.Second, Status: fakeruntime.Completed("")},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("parseStages: %v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"reading", "reading=x", "=1s", "a=1s,", "a=-1s"} {
		if _, err := parseStages(bad); err == nil {
			t.Errorf("parseStages(%q) succeeded", bad)
		}
	}
}

func TestParseRefusesAnotherUserRule(t *testing.T) {
	t.Parallel()
	if _, err := parse([]string{"--user-by=name"}); err == nil {
		t.Error("parse succeeded")
	}
}
