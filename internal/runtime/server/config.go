package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/agentruntime/operator/internal/runtime"
	"github.com/agentruntime/operator/internal/runtime/session"
)

// Limits bound what a server takes on (compile-api.md, F.1).
type Limits struct {
	// Admitted and AdmittedPerUser bound tasks that are queued or running.
	Admitted        int
	AdmittedPerUser int
	// Running bounds tasks that run at once.
	Running int
	// QueueWait and RunTime bound how long a task may wait and run; beyond them
	// it fails with DEADLINE_EXCEEDED.
	QueueWait time.Duration
	RunTime   time.Duration
	// CleanupGrace is how long a run may take to stop once it was told to.
	CleanupGrace time.Duration
	// HeldPolls bounds status requests held at once.
	HeldPolls int
}

// DefaultLimits are those of section F.1.
func DefaultLimits() Limits {
	return Limits{
		Admitted:        40,
		AdmittedPerUser: 10,
		Running:         10,
		QueueWait:       time.Hour,
		RunTime:         time.Hour,
		CleanupGrace:    40 * time.Second,
		HeldPolls:       1024,
	}
}

// Validate names every limit that is out of range.
func (l Limits) Validate() error {
	var errs []error
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"admitted tasks must be at least 1", l.Admitted >= 1},
		{"admitted tasks per user must be at least 1", l.AdmittedPerUser >= 1},
		{"running tasks must be at least 1", l.Running >= 1},
		{"queue wait must be above zero", l.QueueWait > 0},
		{"run time must be above zero", l.RunTime > 0},
		{"cleanup grace must not be negative", l.CleanupGrace >= 0},
		{"held polls must not be negative", l.HeldPolls >= 0},
	} {
		if !c.ok {
			errs = append(errs, errors.New(c.name))
		}
	}
	return errors.Join(errs...)
}

// Store is the durable memory a server needs; *session.Store is one.
type Store interface {
	Lookup(key session.Key) (string, error)
	Create(rec session.Record, key *session.Key) (existing string, err error)
	Save(recs ...session.Record) error
	Get(id string) (session.Record, bool, error)
	Recover() (int, error)
	Prune() (session.Pruned, error)
	Check() error
}

// TokenVerifier finds out whose Kubernetes token it is.
type TokenVerifier interface {
	// Verify returns the Kubernetes user name of a token, or ErrBadToken when
	// the token is not good. Any other error means that it could not tell.
	Verify(ctx context.Context, token string) (username string, err error)
}

// ErrBadToken says that a token is not good for this server.
var ErrBadToken = errors.New("token is not accepted")

// Config is what a server is made of. Engine and Store are required.
type Config struct {
	Engine runtime.Engine
	Store  Store
	Limits Limits
	// Content, when set, is shown by the file routes (package fileapi).
	Content Content
	// Log never sees a credential; nil discards.
	Log *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics

	// ListenerLoopback says that the listener is bound to a loopback address.
	ListenerLoopback bool
	// GatewayTokens returns the tokens that are good now; nil or an empty list
	// means that none is configured (A.7).
	GatewayTokens func() []string
	// TrustLoopbackIdentity trusts the identity headers of callers that need no
	// gateway token because they are on loopback.
	TrustLoopbackIdentity bool
	// Tokens, when set, makes every credential a Kubernetes token.
	Tokens TokenVerifier
	// DefaultAccount is the account of users who bring none.
	DefaultAccount string
	// AllowedModels are the values that args.model_name may have.
	AllowedModels []string
	// PrepareTimeout bounds Engine.Prepare; zero means 30 s.
	PrepareTimeout time.Duration
}

const defaultPrepareTimeout = 30 * time.Second

// accountName is a namespace's name, which is a DNS label.
var accountName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// ValidAccount reports whether a name can be an account: a DNS label, as a
// namespace's name is.
func ValidAccount(name string) bool { return accountName.MatchString(name) }

func (c *Config) complete() error {
	if c.Engine == nil || c.Store == nil {
		return errors.New("server needs an engine and a store")
	}
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	if c.DefaultAccount == "" {
		c.DefaultAccount = "default"
	}
	if !ValidAccount(c.DefaultAccount) {
		return fmt.Errorf("default account must be a DNS label of at most 63 characters")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	if c.GatewayTokens == nil {
		c.GatewayTokens = func() []string { return nil }
	}
	if c.PrepareTimeout <= 0 {
		c.PrepareTimeout = defaultPrepareTimeout
	}
	return nil
}
