package tasks

import (
	"container/list"
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// bodyOverhead is what keeping a body costs beside its bytes, roughly.
const bodyOverhead = 256

// bodyKey names a body by the uid of its task and its field.
type bodyKey struct {
	uid   types.UID
	field string
}

// bodyCache keeps opened bodies up to a bound in bytes; the one used longest ago goes
// first.
type bodyCache struct {
	mu    sync.Mutex
	max   int
	size  int
	order *list.List // of *keptBody, the last used in front
	byKey map[bodyKey]*list.Element
}

type keptBody struct {
	key  bodyKey
	body json.RawMessage
}

func newBodyCache(bytes int) *bodyCache {
	return &bodyCache{max: bytes, order: list.New(), byKey: map[bodyKey]*list.Element{}}
}

func (c *bodyCache) get(key bodyKey) (json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(element)
	return keptOf(element).body, true
}

// put keeps a body, unless it alone would exceed the bound.
func (c *bodyCache) put(key bodyKey, body json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok || cost(body) > c.max {
		return
	}
	c.byKey[key] = c.order.PushFront(&keptBody{key, body})
	c.size += cost(body)
	for c.size > c.max {
		oldest := c.order.Back()
		delete(c.byKey, keptOf(oldest).key)
		c.size -= cost(keptOf(oldest).body)
		c.order.Remove(oldest)
	}
}

func cost(body json.RawMessage) int { return cap(body) + bodyOverhead }

func keptOf(element *list.Element) *keptBody {
	return element.Value.(*keptBody) //nolint:errcheck // the list holds nothing else
}
