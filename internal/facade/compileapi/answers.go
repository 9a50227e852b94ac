package compileapi

import (
	"sync"
	"time"

	"github.com/agentruntime/operator/internal/facade/wire"
)

const (
	// freeAnswerBytes of every answer count for nothing, so that ordinary ones go on
	// while large ones are turned away.
	freeAnswerBytes = 256 << 10
	// maxAnswerBytes bounds what all large answers under way hold together beyond
	// that, in bytes, and maxCallerAnswerBytes what those of one caller do. A client
	// that does not read may hold an answer for as long as a request may take, and it
	// takes about twice its size until it is gone.
	maxAnswerBytes       = 128 << 20
	maxCallerAnswerBytes = 2 * maxListBytes

	// answersRetry is when to come back for what there was no memory for.
	answersRetry = time.Second
)

// answers bounds the memory that large answers take, each caller's and all together.
// It is safe for concurrent use.
type answers struct {
	mu   sync.Mutex
	used int64
	// callers has who holds something.
	callers map[string]int64
}

func newAnswers() *answers { return &answers{callers: map[string]int64{}} }

// claim is the memory of one answer. It belongs to one request, which releases it.
type claim struct {
	answers *answers
	caller  string
	bytes   int64
}

func (a *answers) claim(caller string) *claim { return &claim{answers: a, caller: caller} }

// reach takes what an answer of that many bytes needs, beyond what it has. Without
// enough of the caller's own share it is RESOURCE_EXHAUSTED, and without enough of
// what all share UNAVAILABLE. A caller who holds nothing gets one record of any size.
func (c *claim) reach(size int) error {
	more := max(int64(size)-freeAnswerBytes, 0) - c.bytes
	if more <= 0 {
		return nil
	}
	a := c.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.callers[c.caller]
	switch {
	case held > 0 && held+more > maxCallerAnswerBytes:
		answer := wire.Errorf(wire.CodeResourceExhausted,
			"too many large answers under way: let some of them end, or ask for less at once")
		answer.RetryAfter = answersRetry
		return answer
	case a.used > 0 && a.used+more > maxAnswerBytes:
		answer := wire.Unavailable("too many large answers at once; try again later", "facade", "answer memory")
		answer.RetryAfter = answersRetry
		return answer
	}
	a.callers[c.caller] = held + more
	a.used += more
	c.bytes += more
	return nil
}

// release gives back all that was taken.
func (c *claim) release() {
	if c.bytes == 0 {
		return
	}
	a := c.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used -= c.bytes
	if a.callers[c.caller] -= c.bytes; a.callers[c.caller] <= 0 {
		delete(a.callers, c.caller)
	}
	c.bytes = 0
}
