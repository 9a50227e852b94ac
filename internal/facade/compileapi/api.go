package compileapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/httpapi"
)

// Config is what the dialect works with. Every field but the last two is required.
type Config struct {
	Tasks      Tasks
	Authorizer access.Authorizer
	Runtimes   Runtimes
	Keys       KeyRings
	// Limits bound what a request may take; zero fields take their defaults.
	Limits Limits
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

// Limits bound what a request may take. A zero field takes its default.
type Limits struct {
	// MaxWait bounds "?wait" of a direct request; 60 s.
	MaxWait time.Duration
	// MaxAggregatedWait bounds "?wait" of a request through the API server; 5 s.
	MaxAggregatedWait time.Duration
	// Heartbeat is how often a stream shows that it is alive; 15 s.
	Heartbeat time.Duration
	// Recheck is how often a stream asks whether its reader may still read; 5 s.
	Recheck time.Duration
	// EventWrite bounds the writing of one event to a slow reader; 10 s.
	EventWrite time.Duration
	// ContentCheck bounds all look-ups of sources, Skill and target together; 5 s.
	ContentCheck time.Duration
}

func (l Limits) withDefaults() Limits {
	for field, fallback := range map[*time.Duration]time.Duration{
		&l.MaxWait: 60 * time.Second, &l.MaxAggregatedWait: 5 * time.Second, &l.Heartbeat: 15 * time.Second,
		&l.Recheck: 5 * time.Second, &l.EventWrite: 10 * time.Second, &l.ContentCheck: 5 * time.Second,
	} {
		if *field <= 0 {
			*field = fallback
		}
	}
	return l
}

// API is the dialect's handlers. It keeps no state but what large answers take of its memory.
type API struct {
	tasks    Tasks
	access   access.Authorizer
	runtimes Runtimes
	keys     KeyRings
	limits   Limits
	answers  *answers
	now      func() time.Time
}

// New returns the dialect over what config names.
func New(config Config) (*API, error) {
	if config.Tasks == nil || config.Authorizer == nil || config.Runtimes == nil || config.Keys == nil {
		return nil, errors.New("make the compile API: tasks, authorizer, runtimes and keys are required")
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &API{
		tasks: config.Tasks, access: config.Authorizer, runtimes: config.Runtimes, keys: config.Keys,
		limits: config.Limits.withDefaults(), answers: newAnswers(), now: config.Now,
	}, nil
}

// Routes are the operations of the dialect.
func (a *API) Routes() []httpapi.Route {
	return append([]httpapi.Route{
		{Name: "compile.create", Method: http.MethodPost, Path: "/api/v1/compile", Aggregated: "/compile",
			MaxBody: MaxBodyBytes, Handle: a.create},
		{Name: "compile.capabilities", Method: http.MethodGet, Path: "/api/v1/compile/capabilities",
			Aggregated: "/compile/capabilities", Handle: a.capabilities},
		{Name: "compile.submission", Method: http.MethodGet, Path: "/api/v1/compile/submissions/{key}",
			Aggregated: "/submissions/{key}", Handle: a.submission},
		{Name: "tasks.list", Method: http.MethodGet, Path: "/api/v1/tasks", Aggregated: "/tasks", Handle: a.list},
		{Name: "tasks.get", Method: http.MethodGet, Path: "/api/v1/tasks/{task_id}", Aggregated: "/tasks/{task_id}",
			Handle: a.get},
		{Name: "tasks.cancel", Method: http.MethodPost, Path: "/api/v1/tasks/{task_id}/cancel",
			Aggregated: "/tasks/{task_id}/cancel", MaxBody: maxCancelBytes, Handle: a.cancel},
		{Name: "tasks.events", Method: http.MethodGet, Path: "/api/v1/tasks/{task_id}/events",
			Aggregated: "/tasks/{task_id}/log", Stream: true, Handle: a.events},
	}, legacyRoutes()...)
}
