package taskapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// maxAnswer bounds an answer, in bytes: 200 records with their results.
	maxAnswer = 64 << 20
	// DefaultRequestTimeout bounds a request when Options say nothing.
	DefaultRequestTimeout = 30 * time.Second
)

// Options say which server to talk to, and how.
type Options struct {
	// Base is the server's URL; what path it has goes before every request's.
	Base *url.URL
	// Aggregated tells that Base is a Kubernetes API server, which serves the API
	// below /apis/compile.agentruntime.dev/v1. Namespace must be set then.
	Aggregated bool
	// Namespace is where tasks are. Left empty, the server decides.
	Namespace string
	// APIKey, when set, is sent as X-API-Key.
	APIKey string
	// Transport sends the requests, with TLS and, for a kubeconfig, its credentials;
	// nil means http.DefaultTransport.
	Transport http.RoundTripper
	// UserAgent names the program to the server.
	UserAgent string
	// RequestTimeout bounds each request, but for the time a wait was asked for;
	// 0 means DefaultRequestTimeout. Event streams are not bounded by it, once they
	// began.
	RequestTimeout time.Duration
}

// Client talks to one server about the tasks of one namespace.
type Client struct {
	options Options
	http    *http.Client
}

// New makes a client. It asks nothing of the server.
func New(options Options) *Client {
	if options.RequestTimeout <= 0 {
		options.RequestTimeout = DefaultRequestTimeout
	}
	return &Client{
		options: options,
		http: &http.Client{
			Transport: options.Transport,
			// A redirect would take the credentials to wherever it points.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Server is the address that the client talks to.
func (c *Client) Server() string { return c.options.Base.Redacted() }

// call is one request. Its path lies below the API's root: "tasks/cmp_1".
type call struct {
	method string
	path   string
	query  url.Values
	header http.Header
	body   []byte
	// wait is how much longer than usual the server may take.
	wait time.Duration
}

// answer is what came back, with its envelope taken off.
type answer struct {
	status int
	header http.Header
	result json.RawMessage
}

// do sends a request and reads its answer. Every answer but 2xx and 304 is an
// *Error.
func (c *Client) do(ctx context.Context, request call) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.RequestTimeout+request.wait, errNoAnswer)
	defer cancel()
	response, err := c.send(ctx, request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return answer{}, c.unreachable(ctx, err)
	}
	if len(body) > maxAnswer {
		return answer{}, fmt.Errorf("the answer of %s is larger than %d bytes", c.Server(), maxAnswer)
	}
	if response.StatusCode == http.StatusNotModified {
		return answer{status: response.StatusCode, header: response.Header}, nil
	}
	result, err := unwrap(response, body)
	if err != nil {
		return answer{}, err
	}
	return answer{status: response.StatusCode, header: response.Header, result: result}, nil
}

var errNoAnswer = errors.New("no answer in time")

// send sends a request. The caller closes the answer's body.
func (c *Client) send(ctx context.Context, request call) (*http.Response, error) {
	return c.sendTo(ctx, c.url(request), request)
}

func (c *Client) sendTo(ctx context.Context, address string, request call) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, request.method, address, bytes.NewReader(request.body))
	if err != nil {
		return nil, fmt.Errorf("make a request for %s: %w", c.Server(), err)
	}
	for name, values := range request.header {
		r.Header[name] = values
	}
	if request.body == nil {
		r.Body = http.NoBody
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "application/json")
	}
	if c.options.UserAgent != "" {
		r.Header.Set("User-Agent", c.options.UserAgent)
	}
	if c.options.APIKey != "" {
		r.Header.Set("X-API-Key", c.options.APIKey)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return response, nil
}

// unreachable tells of a request that got no answer, without its URL twice.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	return &UnreachableError{Server: c.Server(), Err: err}
}

// unwrap takes the envelope off an answer.
func unwrap(response *http.Response, body []byte) (json.RawMessage, error) {
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, errorOf(response, body)
	}
	var envelope struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, &Error{
			Status: response.StatusCode, Code: CodeUnknown, RequestID: response.Header.Get("X-Request-ID"),
			Message: "the server's answer is no JSON: is this the facade's address?",
		}
	}
	if envelope.Status != "ok" {
		return nil, errorOf(response, body)
	}
	return envelope.Result, nil
}
