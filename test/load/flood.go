package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// floodRate is the bad requests a second of all callers; a quarter of them are the
	// first caller's, who is far beyond what one may send.
	floodRate = 300
	// floodWorkers bounds those under way.
	floodWorkers = 32
	// floodCallers share the rest, each below their own limit.
	floodCallers = 20
	// largeEvery is how many bad bodies come for one that is as large as may be.
	largeEvery = 50
)

// badBody is a body that a create refuses.
type badBody struct {
	name string
	text []byte
	kind string
}

// badBodies are small and quick to send; the flood has one after the other.
func badBodies() []badBody {
	const plain = "application/json"
	return []badBody{
		{"no JSON", []byte(`{"from":[` + strings.Repeat("x", 1<<10)), plain},
		{"too deep", []byte(strings.Repeat("[", 1<<12)), plain},
		{"no UTF-8", []byte(strings.Repeat("\xff", 1<<10)), plain},
		{"a name twice", []byte(`{"from":[],"from":[]}`), plain},
		{"unknown fields", []byte(`{"from":["viking://resources/a"],"x":{"y":[` + strings.Repeat("1,", 1<<11) + `1]}}`), plain},
		{"another type", []byte(`from=viking`), "application/x-www-form-urlencoded"},
		{"too many sources", []byte(`{"to":"viking://resources/b","from":["` + strings.Repeat(`","`, 1<<10) + `"]}`), plain},
	}
}

// largeBodies are those that cost the most to refuse: the largest that are read to
// their end, and one that is not.
func largeBodies() []badBody {
	const plain, limit = "application/json", 1 << 20
	many := bytes.Repeat([]byte(`[],`), (limit-10)/3)
	return []badBody{
		{"a million small values", append(append([]byte(`{"x":[`), many...), []byte(`1]}`)...), plain},
		{"one byte short of its end", bytes.Repeat([]byte(` `), limit), plain},
		{"too large", bytes.Repeat([]byte(` `), 2*limit), plain},
	}
}

// flood sends bad bodies.
type flood struct {
	web  *http.Client
	url  string
	keys []string
	pace *rate.Limiter

	running sync.WaitGroup
	stop    context.CancelFunc

	mu sync.Mutex
	// answers counts by status; 0 is a connection that was cut.
	answers map[int]int
	sent    int
}

func startFlood(ctx context.Context, web *http.Client, base string, keys []string) *flood {
	ctx, cancel := context.WithCancel(ctx)
	f := &flood{
		web: web, url: base + compilePath, keys: keys,
		pace: rate.NewLimiter(floodRate, 1), stop: cancel, answers: map[int]int{},
	}
	small, large := badBodies(), largeBodies()
	for range floodWorkers {
		f.running.Go(func() {
			for f.pace.Wait(ctx) == nil {
				f.one(ctx, small, large)
			}
		})
	}
	return f
}

func (f *flood) close() {
	f.stop()
	f.running.Wait()
}

// one sends the next bad body and counts the answer.
func (f *flood) one(ctx context.Context, small, large []badBody) {
	f.mu.Lock()
	n := f.sent
	f.sent++
	f.mu.Unlock()
	body := small[n%len(small)]
	if n%largeEvery == 0 {
		body = large[n/largeEvery%len(large)]
	}
	key := f.keys[0]
	if n%4 != 0 {
		key = f.keys[n%len(f.keys)]
	}
	status, err := f.send(ctx, key, body)
	if errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[status]++
}

func (f *flood) send(ctx context.Context, key string, body badBody) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body.text))
	if err != nil {
		return 0, err
	}
	request.Header.Set("X-API-Key", key)
	request.Header.Set("Content-Type", body.kind)
	response, err := f.web.Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Body.Close()
}
