package facade

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/middleware"
)

// Config is what a Server is made of. A field is required unless it says otherwise.
type Config struct {
	// Routes are the operations of the dialects.
	Routes []httpapi.Route
	// Authenticator knows who comes directly.
	Authenticator middleware.Authenticator
	// DefaultNamespace is for requests that name none; without it they are refused.
	DefaultNamespace string
	// Aggregated, when set, serves the API server's aggregator too.
	Aggregated *Aggregated

	// GetCertificate returns the certificate to serve. It is left out only with
	// InsecureHTTP.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// InsecureHTTP serves plain HTTP, which Serve does on loopback listeners only.
	InsecureHTTP bool

	// Checks say whether what the server works with is there. May be empty.
	Checks []Check
	// Ping reaches the API server. It is called every 10 s while the server runs.
	Ping func(context.Context) error

	// AllowedOrigins are whose pages may call from a browser; see
	// middleware.NewCORS. May be empty.
	AllowedOrigins []string
	// Limits are what one caller may do; zero fields take their defaults.
	Limits middleware.Limits
	// Times bound what takes time; zero fields take their defaults.
	Times Times
	// BodyMemory bounds what large bodies hold together, in bytes;
	// middleware.DefaultBodyMemory when 0.
	BodyMemory int64

	// Version is the operator's, for the OpenAPI document. May be empty.
	Version string
	// Logger is for the access log and faults.
	Logger *slog.Logger
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
}

// Aggregated is what the API server's aggregator is served.
type Aggregated struct {
	// Authenticator knows the aggregator and whom it speaks for.
	Authenticator middleware.Authenticator
	// Groups are the API groups, each in one version.
	Groups []Group
}

// Group is one API group behind the aggregator.
type Group struct {
	// Name and Version are those of its APIService.
	Name, Version string
	// Kinds has the Kind of each resource, by its plural name: what discovery calls
	// the objects that its routes answer with.
	Kinds map[string]string
	// Routes are served at their aggregated path; those without one are left out.
	Routes []httpapi.Route
}

// Check is one condition of readiness.
type Check struct {
	// Name is told to whoever asks: a word or two, and no secret.
	Name string
	// Ready returns nil when the condition holds. It answers at once, from memory.
	Ready func() error
}

// Times bound what takes time. A zero field takes its default.
type Times struct {
	// Header bounds the sending of a request's header; 20 s. A slow client that is cut off comes
	// back, and costs a handshake.
	Header time.Duration
	// Body bounds the sending of a request's body; 20 s.
	Body time.Duration
	// Request bounds a request that is no stream: 60 s beyond the longest wait, so
	// 120 s. The taking of its answer may last 10 s longer.
	Request time.Duration
	// Idle is how long a connection is kept between requests; 90 s.
	Idle time.Duration
	// DrainDelay is how long the server goes on as it is after it has said that it
	// is not ready, for those who send requests to notice; none by default.
	DrainDelay time.Duration
	// Drain bounds the ending of requests under way when the server stops; 20 s.
	Drain time.Duration
}

func (t Times) withDefaults() Times {
	for field, fallback := range map[*time.Duration]time.Duration{
		&t.Header: 20 * time.Second, &t.Body: 20 * time.Second, &t.Request: 120 * time.Second,
		&t.Idle: 90 * time.Second, &t.Drain: 20 * time.Second,
	} {
		if *field <= 0 {
			*field = fallback
		}
	}
	return t
}

func (c *Config) validate() error {
	var faults []error
	required := []struct {
		name    string
		missing bool
	}{
		{"routes", len(c.Routes) == 0}, {"an authenticator", c.Authenticator == nil}, {"a ping", c.Ping == nil},
		{"a logger", c.Logger == nil}, {"a registerer", c.Registerer == nil},
		{"a certificate, unless it is insecure", c.GetCertificate == nil && !c.InsecureHTTP},
	}
	for _, field := range required {
		if field.missing {
			faults = append(faults, fmt.Errorf("it needs %s", field.name))
		}
	}
	if c.Aggregated != nil {
		faults = append(faults, c.Aggregated.validate())
		if c.InsecureHTTP {
			faults = append(faults, errors.New("the aggregator shows itself by a certificate, which plain HTTP has none of"))
		}
	}
	if c.BodyMemory < 0 {
		faults = append(faults, errors.New("the memory for bodies must not be negative"))
	}
	return errors.Join(faults...)
}

func (a *Aggregated) validate() error {
	if a.Authenticator == nil || len(a.Groups) == 0 {
		return errors.New("aggregation needs an authenticator and groups")
	}
	for _, group := range a.Groups {
		if group.Name == "" || group.Version == "" {
			return errors.New("an aggregated group needs a name and a version")
		}
	}
	return nil
}
