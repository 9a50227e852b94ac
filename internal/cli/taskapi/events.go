package taskapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// maxLine bounds a line of a stream, in bytes: one record.
	maxLine = 16 << 20
	// silence is how long a stream may say nothing: the server's heartbeats come
	// every 15 s, so three of them are missing then.
	silence = 45 * time.Second
)

// errSilent ends a stream whose heartbeats stay away.
var errSilent = errors.New("the stream fell silent")

// Stream is a task's event stream. It must be closed.
type Stream struct {
	lines  *bufio.Scanner
	body   io.Closer
	ctx    context.Context //nolint:containedctx // the stream's own: it ends with Close or with silence
	cancel context.CancelCauseFunc
	silent *time.Timer
	client *Client
}

// Event is one event of a stream.
type Event struct {
	// Task is the record as of the event; nil for the event that ends the stream.
	Task *Task
	// ID is what a stream resumes after.
	ID string
}

// Events opens a task's event stream, which goes on after the event lastID, or
// begins with the task's present state when lastID is empty.
func (c *Client) Events(ctx context.Context, id, lastID string) (*Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	// Until the stream has begun, the bound is a request's.
	silent := time.AfterFunc(c.options.RequestTimeout, func() { cancel(errSilent) })
	response, err := c.openStream(ctx, id, lastID) //nolint:bodyclose // Stream.Close closes it
	if err != nil {
		silent.Stop()
		cancel(nil)
		return nil, err
	}
	silent.Reset(silence)
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	return &Stream{lines: lines, body: response.Body, ctx: ctx, cancel: cancel, silent: silent, client: c}, nil
}

func (c *Client) openStream(ctx context.Context, id, lastID string) (*http.Response, error) {
	header := http.Header{"Accept": {"text/event-stream"}}
	if lastID != "" {
		header.Set("Last-Event-ID", lastID)
	}
	response, err := c.send(ctx, call{method: http.MethodGet, path: taskPath(id) + c.streamSuffix(), header: header})
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response, nil
	}
	defer response.Body.Close()
	// What is no stream is an error, or the answer of something that is no facade.
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if _, err := unwrap(response, body); err != nil {
		return nil, err
	}
	return nil, &Error{Status: http.StatusNotImplemented, Code: CodeUnknown, Message: "the server has no event streams"}
}

// streamSuffix names the stream. The aggregator cuts every path at its request
// timeout but the long-running subresources, of which log is one.
func (c *Client) streamSuffix() string {
	if c.options.Aggregated {
		return "/log"
	}
	return "/events"
}

// Next waits for the next event. It returns io.EOF when the stream was cut, and an
// event without a task when it is over.
func (s *Stream) Next() (Event, error) {
	var name, id string
	var data []string
	for s.lines.Scan() {
		s.silent.Reset(silence)
		line := s.lines.Text()
		if line != "" {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				name = value
			case "id":
				id = value
			case "data":
				data = append(data, value)
			}
			continue
		}
		event, complete, err := eventOf(name, id, data)
		if err != nil || complete {
			return event, err
		}
		name, id, data = "", "", nil
	}
	return Event{}, s.ended()
}

// eventOf makes an event of a block of lines. A block that is none of ours, such
// as a heartbeat, is not complete.
func eventOf(name, id string, data []string) (event Event, complete bool, err error) {
	switch name {
	case "end":
		return Event{ID: id}, true, nil
	case "task":
		task, err := decodeTask([]byte(strings.Join(data, "\n")))
		if err != nil {
			return Event{}, false, err
		}
		return Event{Task: task, ID: id}, true, nil
	}
	return Event{}, false, nil
}

func (s *Stream) ended() error {
	err := s.lines.Err()
	if err == nil {
		return io.EOF
	}
	if errors.Is(err, bufio.ErrTooLong) {
		return errors.New("an event is larger than the client takes")
	}
	return s.client.unreachable(s.ctx, err)
}

// Close ends the stream.
func (s *Stream) Close() {
	s.silent.Stop()
	s.cancel(nil)
	_ = s.body.Close()
}
