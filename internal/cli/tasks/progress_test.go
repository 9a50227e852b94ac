package tasks

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/cli/taskapi"
)

func TestProgress(t *testing.T) {
	began := time.Unix(1000, 0)
	show := func(p *Progress) {
		p.Update(&taskapi.Task{Status: "pending", Stage: "queued"}, began)
		p.Tick(began.Add(time.Second))
		p.Update(&taskapi.Task{Status: "pending", Stage: "queued", Error: "other"}, began.Add(2*time.Second))
		p.Note("still\ntrying")
		p.Update(&taskapi.Task{Status: "completed", Stage: "completed"}, began.Add(3725*time.Second))
		p.Done()
	}
	tests := map[string]struct {
		screen Screen
		want   string
	}{
		"a file gets a line for each change": {
			want: "[00:00] pending: queued\nstill trying\n[1:02:05] completed\n",
		},
		"a terminal gets one line that is rewritten": {
			screen: Screen{Terminal: true},
			want: "\r[00:00] pending: queued\x1b[K\r[00:01] pending: queued\x1b[K\r[00:02] pending: queued\x1b[K\n" +
				"still trying\n\r[1:02:05] completed\x1b[K\n",
		},
		"a narrow terminal gets as much as fits": {
			screen: Screen{Terminal: true, Width: 11},
			want:   "\r[00:00] pe\x1b[K\r[00:01] pe\x1b[K\r[00:02] pe\x1b[K\nstill trying\n\r[1:02:05] \x1b[K\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			test.screen.W = &got
			show(NewProgress(test.screen, began))
			if diff := cmp.Diff(test.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
