package facade

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/middleware"
	"github.com/agentruntime/operator/internal/facade/openapi"
)

// Server serves the facade. Any number of replicas may run: it keeps nothing but
// what each caller uses of their limits.
type Server struct {
	config  Config
	metrics *middleware.Metrics
	cors    *middleware.CORS
	limiter *middleware.Limiter
	bodies  *middleware.Bodies
	probe   *probe
	// own are the routes that are not a dialect's.
	own     []httpapi.Route
	handler http.Handler

	// serving is set once requests are taken, unready once the server begins to
	// stop. draining is closed when answers that last must end.
	serving, unready atomic.Bool
	draining         chan struct{}
	drain            sync.Once
}

// New checks the config and returns a server that does not run yet.
func New(config Config) (*Server, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("make the facade's server: %w", err)
	}
	config.Times = config.Times.withDefaults()
	if config.BodyMemory == 0 {
		config.BodyMemory = middleware.DefaultBodyMemory
	}
	cors, err := middleware.NewCORS(config.AllowedOrigins)
	if err != nil {
		return nil, err
	}
	mounted, err := mountsOf(config)
	if err != nil {
		return nil, err
	}
	document, err := openapi.New(config.Version)
	if err != nil {
		return nil, err
	}
	metrics, err := middleware.NewMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: config, metrics: metrics, cors: cors,
		limiter:  middleware.NewLimiter(config.Limits, metrics),
		bodies:   middleware.NewBodies(config.BodyMemory, metrics),
		probe:    &probe{ping: config.Ping},
		draining: make(chan struct{}),
	}
	s.own = append(s.healthRoutes(), document.Route())
	for _, route := range s.own {
		if err := mounted.addDirect(route); err != nil {
			return nil, err
		}
	}
	s.handler = s.newRouter(mounted)
	return s, nil
}

func mountsOf(config Config) (mounts, error) {
	mounted := mounts{}
	for _, route := range config.Routes {
		if err := mounted.addDirect(route); err != nil {
			return nil, err
		}
	}
	return mounted, mounted.addAggregated(config.Aggregated)
}

// Handler serves requests without a listener of its own, as tests do.
func (s *Server) Handler() http.Handler { return s.handler }

// Routes are all operations that are served directly, the server's own included.
func (s *Server) Routes() []httpapi.Route {
	return slices.Concat(s.config.Routes, s.own)
}
