package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/sealed"
)

// Informers gives the informer that feeds the store: a cache that keeps CompileTasks
// as CacheOptions says.
type Informers interface {
	GetInformer(ctx context.Context, object client.Object, options ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error)
}

// Reader reads live, as the facade itself: CompileTasks and Payloads by name.
type Reader interface {
	Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error
}

// Writer writes as the user whom Options.As has put into the context.
type Writer interface {
	Create(ctx context.Context, object client.Object, options ...client.CreateOption) error
	Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error
}

// Rings holds the key ring that opens sealed bodies.
type Rings interface {
	// Ring is the ring as it is now.
	Ring(ctx context.Context) (*sealed.KeyRing, error)
	// Reload reads the ring anew, unless that was done just now.
	Reload(ctx context.Context) (*sealed.KeyRing, error)
}

// Options are what a Store works with. All but Clock and Limits are required.
type Options struct {
	Informers Informers
	Live      Reader
	Writer    Writer
	// As puts the user into the context of a write, for the Writer's transport.
	As    func(ctx context.Context, user v1alpha1.Requester) context.Context
	Rings Rings
	Clock clock.PassiveClock
	// Limits bound what the store keeps; zero fields take their defaults.
	Limits Limits
}

// Limits bound what a store keeps. A zero field takes its default.
type Limits struct {
	// OwnWriteAge is how long own writes are remembered; 10 s.
	OwnWriteAge time.Duration
	// OwnWrites is how many of them; 4,096.
	OwnWrites int
	// Watches is how many watches there may be; 20,000.
	Watches int
	// BodyBytes bounds the opened bodies that are kept, in bytes; 64 MiB.
	BodyBytes int
	// BodyReads is how many bodies may be fetched and opened at once; 8.
	BodyReads int
	// Settle bounds a look after a write whose outcome is unknown, and the fetching
	// of a body; 5 s.
	Settle time.Duration
}

func (l Limits) withDefaults() Limits {
	for field, fallback := range map[*int]int{&l.OwnWrites: 4096, &l.Watches: 20_000, &l.BodyBytes: 64 << 20, &l.BodyReads: 8} {
		if *field <= 0 {
			*field = fallback
		}
	}
	for field, fallback := range map[*time.Duration]time.Duration{&l.OwnWriteAge: 10 * time.Second, &l.Settle: 5 * time.Second} {
		if *field <= 0 {
			*field = fallback
		}
	}
	return l
}

// Store reads and writes CompileTasks. It may be used by many goroutines at once and
// starts none but those that fetch a body, which end within Limits.Settle.
type Store struct {
	live   Reader
	writer Writer
	as     func(context.Context, v1alpha1.Requester) context.Context
	clock  clock.PassiveClock
	settle time.Duration

	index  *index
	recent *recent
	hub    *hub
	bodies *bodies

	informers Informers
	synced    atomic.Pointer[func() bool]
}

// New returns a store. It knows nothing before Attach.
func New(options Options) (*Store, error) {
	if options.Informers == nil || options.Live == nil || options.Writer == nil || options.As == nil || options.Rings == nil {
		return nil, errors.New("make the store of CompileTasks: informers, live reader, writer, As and rings are required")
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	limits := options.Limits.withDefaults()
	return &Store{
		live: options.Live, writer: options.Writer, as: options.As, clock: options.Clock, settle: limits.Settle,
		index:     newIndex(),
		recent:    newRecent(options.Clock, limits.OwnWriteAge, limits.OwnWrites),
		hub:       newHub(limits.Watches),
		bodies:    newBodies(options.Live, options.Rings, limits),
		informers: options.Informers,
	}, nil
}

// Attach has the informer feed the store, from now until the informer stops. It is
// called once; with a cache that runs it waits until the cache has synced, within ctx.
func (s *Store) Attach(ctx context.Context) error {
	informer, err := s.informers.GetInformer(ctx, &v1alpha1.CompileTask{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("get the informer of CompileTasks: %w", err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.observe(object) },
		UpdateFunc: func(_, object any) { s.observe(object) },
		DeleteFunc: s.forget,
	})
	if err != nil {
		return fmt.Errorf("follow the informer of CompileTasks: %w", err)
	}
	synced := registration.HasSynced
	s.synced.Store(&synced)
	return nil
}

// Synced reports whether the store has all that was there when it was attached.
// Before that lists are not whole.
func (s *Store) Synced() bool {
	synced := s.synced.Load()
	return synced != nil && (*synced)()
}

// observe takes in a state from the informer.
func (s *Store) observe(object any) {
	task, ok := object.(*v1alpha1.CompileTask)
	if !ok {
		return
	}
	if replaced := s.index.put(task); replaced != nil {
		s.hub.gone(replaced.UID)
	}
	s.recent.seen(task)
	s.hub.publish(task)
}

// forget takes out what the informer tells is deleted.
func (s *Store) forget(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	task, ok := object.(*v1alpha1.CompileTask)
	if !ok {
		return
	}
	s.index.remove(task)
	s.recent.gone(keyOf(task), task.UID)
	s.hub.gone(task.UID)
}
