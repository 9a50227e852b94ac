package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// crowdCommand is the first argument of the process that is the crowd.
const crowdCommand = "crowd"

// crowdOrder is what the crowd reads, and standingPause how often it looks around.
type crowdOrder struct {
	Base, Authority     string
	SlowKeys, FloodKeys []string
	Slow                int
}

const standingPause = 100 * time.Millisecond

// sighting is what the crowd writes, when the flood has begun and at its end.
type sighting struct {
	// Least is the least number of slow clients at any time between, Cut those that
	// were cut off, all the time.
	Least, Cut int64
	// Answers counts those to bad bodies by status; 0 is a connection that was cut.
	Answers map[int]int
}

// accepted is how many bad bodies were not refused.
func (s sighting) accepted() int {
	n := 0
	for status, count := range s.Answers {
		if status != 0 && status < http.StatusBadRequest || status >= http.StatusInternalServerError {
			n += count
		}
	}
	return n
}

// add takes in what was seen another time.
func (s *sighting) add(other sighting) {
	s.Least, s.Cut = min(s.Least, other.Least), s.Cut+other.Cut
	for status, count := range other.Answers {
		s.Answers[status] += count
	}
}

// String implements fmt.Stringer.
func (s sighting) String() string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(s.Answers)) {
		name := fmt.Sprint(status)
		if status == 0 {
			name = "cut off"
		}
		parts = append(parts, fmt.Sprintf("%d %s", s.Answers[status], name))
	}
	return strings.Join(parts, ", ")
}

// crowd is the process with all who do harm. It gives way to everybody else, for in
// earnest its work is done on other machines; that it is there all the same, it shows.
type crowd struct {
	command *exec.Cmd
	input   io.WriteCloser
	output  *json.Decoder
}

// gather brings the slow clients and the flood, and returns once they are there.
func gather(ctx context.Context, order crowdOrder) (*crowd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := &crowd{command: exec.CommandContext(ctx, "nice", "-n", "19", self, crowdCommand)}
	c.command.Stderr = os.Stderr
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.input, err = c.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("open the crowd's input: %w", err)
	}
	output, err := c.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open the crowd's output: %w", err)
	}
	c.output = json.NewDecoder(output)
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start the crowd: %w", err)
	}
	var begun sighting
	if err := errors.Join(json.NewEncoder(c.input).Encode(order), c.output.Decode(&begun)); err != nil {
		return nil, errors.Join(fmt.Errorf("gather the crowd: %w", err), c.command.Process.Kill(), c.command.Wait())
	}
	return c, nil
}

// close ends the crowd and returns what it saw.
func (c *crowd) close() (sighting, error) {
	var saw sighting
	err := errors.Join(c.input.Close(), c.output.Decode(&saw), c.command.Wait())
	if err != nil {
		return saw, fmt.Errorf("end the crowd: %w", err)
	}
	return saw, nil
}

func (b *bench) crowdOrder(ctx context.Context) (crowdOrder, error) {
	authority, err := b.stack.FacadeAuthority(ctx)
	if err != nil {
		return crowdOrder{}, err
	}
	slow, err := b.newCallers(ctx, nil, "slow", slowCallers)
	if err != nil {
		return crowdOrder{}, err
	}
	bad, err := b.newCallers(ctx, nil, "bad", floodCallers)
	if err != nil {
		return crowdOrder{}, err
	}
	return crowdOrder{
		Base: b.stack.FacadeURL(), Authority: string(authority), Slow: b.slow,
		SlowKeys: keysOf(slow), FloodKeys: keysOf(bad),
	}, nil
}

func keysOf(callers []*caller) []string {
	keys := make([]string, len(callers))
	for i, c := range callers {
		keys[i] = string(c.key)
	}
	return keys
}

// runCrowd is the crowd's process: it takes an order, writes what it sees once all
// are there, and again when its input ends, which ends it.
func runCrowd(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var order crowdOrder
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	if err := decoder.Decode(&order); err != nil {
		return fmt.Errorf("read the crowd's order: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(order.Authority))
	web := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
	}}
	swarm := startSwarm(ctx, order.Base, order.SlowKeys, order.Slow)
	defer swarm.close()
	// All have come, and those who came first have been cut off and are back.
	if err := pause(ctx, swarmRise+swarmRise/2); err != nil {
		return err
	}
	flood := startFlood(ctx, web, order.Base, order.FloodKeys)
	defer flood.close()
	if err := pause(ctx, eventsSettled); err != nil {
		return err
	}
	if err := encoder.Encode(sighting{Least: swarm.standing.Load()}); err != nil {
		return fmt.Errorf("write what the crowd sees: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, decoder.Buffered()); _, _ = io.Copy(io.Discard, in); cancel() }()
	least := swarm.standing.Load()
	for pause(ctx, standingPause) == nil {
		least = min(least, swarm.standing.Load())
	}
	flood.close()
	return encoder.Encode(sighting{Least: least, Cut: swarm.cut.Load(), Answers: flood.answers})
}
