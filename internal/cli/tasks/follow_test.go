package tasks

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentruntime/operator/internal/cli/taskapi"
)

// polls answers polls from functions, the last of which stays.
type polls struct {
	API
	answers []func(ctx context.Context, last taskapi.Seen, wait time.Duration) (taskapi.Seen, error)
	waits   []time.Duration
}

func (p *polls) Wait(ctx context.Context, _ string, last taskapi.Seen, wait time.Duration) (taskapi.Seen, error) {
	answer := p.answers[0]
	if len(p.answers) > 1 {
		p.answers = p.answers[1:]
	}
	p.waits = append(p.waits, wait)
	return answer(ctx, last, wait)
}

func state(status, etag string) func(context.Context, taskapi.Seen, time.Duration) (taskapi.Seen, error) {
	return func(context.Context, taskapi.Seen, time.Duration) (taskapi.Seen, error) {
		task := &taskapi.Task{ID: "cmp_1", Status: status, Raw: []byte(status)}
		return taskapi.Seen{Task: task, ETag: etag}, nil
	}
}

func fail(err error) func(context.Context, taskapi.Seen, time.Duration) (taskapi.Seen, error) {
	return func(context.Context, taskapi.Seen, time.Duration) (taskapi.Seen, error) { return taskapi.Seen{}, err }
}

func TestPollPace(t *testing.T) {
	first := &taskapi.Task{ID: "cmp_1", Status: "pending", Raw: []byte("pending")}
	busy := &taskapi.Error{Status: http.StatusTooManyRequests, Code: "RESOURCE_EXHAUSTED", RetryAfter: 20 * time.Second}
	type answers = []func(context.Context, taskapi.Seen, time.Duration) (taskapi.Seen, error)
	tests := map[string]struct {
		answers         answers
		wantErr         bool
		atLeast, atMost time.Duration
	}{
		"a server that holds answers is asked again at once": {
			answers: answers{state("running", "1"), state("writing", "2"), state("completed", "3")},
		},
		"a server that holds none is asked once a second": {
			answers: answers{state("running", ""), state("running", ""), state("running", ""), state("completed", "")},
			atLeast: 3 * time.Second, atMost: 3 * time.Second,
		},
		"a busy server gets the time it asks for": {
			answers: answers{fail(busy), state("completed", "")}, atLeast: 20 * time.Second, atMost: 20 * time.Second,
		},
		"a server that stays away is given up": {
			answers: answers{fail(&taskapi.UnreachableError{Err: errors.New("refused")})}, wantErr: true,
			atLeast: 5 * time.Minute, atMost: 6 * time.Minute,
		},
		"a refusal is no passing trouble": {
			answers: answers{fail(&taskapi.Error{Status: http.StatusNotFound})}, wantErr: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &polls{answers: test.answers}
				follower := Follower{API: api, Pace: DefaultPace(), Trouble: func(error) {}}
				began := time.Now()
				last, err := follower.Poll(t.Context(), first, func(*taskapi.Task) {})
				if (err != nil) != test.wantErr || (err == nil) != last.Terminal() {
					t.Errorf("%v, %v", last, err)
				}
				if took := time.Since(began); took < test.atLeast || took > test.atMost {
					t.Errorf("took %v", took)
				}
				if api.waits[0] != 0 {
					t.Errorf("the first answer was asked to be held %v", api.waits[0])
				}
			})
		})
	}
}
