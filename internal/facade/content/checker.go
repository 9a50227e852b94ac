package content

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/gatewaytoken"
)

// maxStores bounds the clients that are kept; the one longest unused makes room.
const maxStores = 64

// Checker keeps one client for each AgentRuntime with a content store, made anew when
// its spec changes. It is safe for concurrent use.
type Checker struct {
	secrets   client.Reader
	namespace string
	timeout   time.Duration

	mu     sync.Mutex
	uses   uint64
	stores map[types.UID]*store
}

// store is a client, and what it was made for.
type store struct {
	generation int64
	remote     *contentstore.Remote
	// guarded tells that the operator has a gateway token to show there.
	guarded bool
	err     error
	// lastUse is the number of the last use, of all uses of the Checker.
	lastUse uint64
}

// NewChecker returns a checker that reads gateway tokens from Secrets of the
// operator's namespace with the reader, which should not cache: the facade may get
// Secrets, not list them. Each look-up is bounded by the timeout; 0 means
// contentstore.DefaultRemoteTimeout.
func NewChecker(secrets client.Reader, operatorNamespace string, timeout time.Duration) *Checker {
	return &Checker{
		secrets: secrets, namespace: operatorNamespace, timeout: timeout,
		stores: map[types.UID]*store{},
	}
}

// Reader returns the runtime's content store as the caller sees it: with the
// operator's gateway token, where the store has one, and with the key that the
// caller's API key forwards. It is nil for a runtime without a content store. The
// Principal of each look-up is the request's namespace and the caller's
// viking.UserID.
//
// Errors are *contentstore.Error: IsUnauthenticated when there is no credential to
// show for the caller, IsUnavailable when the runtime's spec can't be used.
func (c *Checker) Reader(runtime *v1alpha1.AgentRuntime, caller access.Caller) (contentstore.Reader, error) {
	if runtime.Spec.ContentStore == nil {
		return nil, nil //nolint:nilnil // no store is no fault
	}
	s := c.store(runtime)
	if s.err != nil {
		return nil, &contentstore.Error{
			Kind: contentstore.KindUnavailable, Reason: "the runtime's content store can't be used", Err: s.err,
		}
	}
	if !s.guarded && caller.Forward == "" {
		return nil, &contentstore.Error{
			Kind:   contentstore.KindUnauthenticated,
			Reason: "the runtime's content store needs a key of its own, and the caller's API key forwards none",
		}
	}
	return s.remote.For(string(caller.Forward)), nil
}

// store returns the client of a runtime. An older state of one, as a cache may have
// it, is served by the newer state's.
func (c *Checker) store(runtime *v1alpha1.AgentRuntime) *store {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stores[runtime.UID]
	if s == nil || s.generation < runtime.Generation {
		if s != nil {
			s.close()
		} else if len(c.stores) >= maxStores {
			c.evict()
		}
		s = c.open(runtime)
		c.stores[runtime.UID] = s
	}
	c.uses++
	s.lastUse = c.uses
	return s
}

func (c *Checker) open(runtime *v1alpha1.AgentRuntime) *store {
	spec := runtime.Spec.ContentStore
	config := contentstore.RemoteConfig{BaseURL: spec.URL, CABundle: spec.CABundle, Timeout: c.timeout}
	if ref := spec.GatewayTokenSecretRef; ref != nil {
		token := gatewaytoken.New(gatewaytoken.Config{Secrets: c.secrets, Namespace: c.namespace, Ref: *ref})
		config.GatewayToken, config.GatewayRefused = token.Get, token.Refuse
	}
	s := &store{generation: runtime.Generation, guarded: spec.GatewayTokenSecretRef != nil}
	s.remote, s.err = contentstore.NewRemote(config)
	return s
}

func (c *Checker) evict() {
	var oldest types.UID
	least := c.uses + 1
	for uid, s := range c.stores {
		if s.lastUse < least {
			oldest, least = uid, s.lastUse
		}
	}
	c.stores[oldest].close()
	delete(c.stores, oldest)
}

// Close lets go of idle connections. Readers still work.
func (c *Checker) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, s := range c.stores {
		s.close()
		delete(c.stores, uid)
	}
}

func (s *store) close() {
	if s.remote != nil {
		s.remote.Close()
	}
}
