package tasks

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// chunk is how many tasks are taken from the index at once, so that a list that
// matches few of many holds nobody up.
const chunk = 256

// Query selects tasks of one namespace.
type Query struct {
	// Namespace is the one of the tasks.
	Namespace string
	// Requester is the user whose tasks are meant; empty for everybody's.
	Requester string
	// Match, when set, says which of them.
	Match func(*v1alpha1.CompileTask) bool
	// After, when set, leaves out that place and all before it.
	After *Place
	// Limit bounds the number of tasks; it is positive.
	Limit int
}

// position is a place in a tree, after which a list goes on.
type position struct {
	place Place
	// uid is empty for a place as a client names it: then all that have it are left
	// out.
	uid types.UID
}

// before reports whether the item comes after the position.
func (p position) before(i item) bool {
	order := p.place.compare(i.place)
	return order < 0 || order == 0 && p.uid != "" && p.uid < i.uid
}

// first is before the place of every task.
func first() Place { return Place{Created: time.Unix(math.MaxInt32<<8, 0)} }

// List returns the tasks that fit the query, newest first, and whether there are more
// of them. This process's own writes of the last seconds are among them though the
// informer may lag. It makes no API call.
func (s *Store) List(ctx context.Context, query Query) ([]*v1alpha1.CompileTask, bool, error) {
	if query.Limit <= 0 {
		return nil, false, errors.New("list CompileTasks: the limit is not positive")
	}
	of := scope{query.Namespace, query.Requester}
	// First what the informer may lack: what it brings in between is in the index.
	own := s.recent.all(of)
	page, err := s.scan(ctx, of, query, own)
	if err != nil {
		return nil, false, err
	}
	page = s.overlay(page, query, own)
	if len(page) > query.Limit {
		return page[:query.Limit], true, nil
	}
	return page, false, nil
}

// scan reads matching tasks from the index: one more than the limit, to know whether
// there are more.
func (s *Store) scan(ctx context.Context, of scope, query Query, own sightings) ([]*v1alpha1.CompileTask, error) {
	after := position{place: first()}
	if query.After != nil {
		after.place = *query.After
	}
	page := make([]*v1alpha1.CompileTask, 0, min(query.Limit+1, chunk))
	size := chunk
	if query.Match == nil {
		size = cap(page)
	}
	part := make([]*v1alpha1.CompileTask, 0, size)
	for len(page) <= query.Limit {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part, after = s.index.next(part[:0], of, after)
		for _, task := range part {
			if task = own.newest(task); len(page) <= query.Limit && query.matches(task) {
				page = append(page, task)
			}
		}
		if len(part) < cap(part) {
			break
		}
	}
	return page, nil
}

// overlay adds the writes of this process that the index did not have.
func (s *Store) overlay(page []*v1alpha1.CompileTask, query Query, own sightings) []*v1alpha1.CompileTask {
	if len(own) == 0 {
		return page
	}
	listed := make(map[types.UID]bool, len(page))
	for _, task := range page {
		listed[task.UID] = true
	}
	before := len(page)
	for _, task := range own {
		// The informer may have brought it while the index was read.
		if cached := s.index.named(keyOf(task)); cached != nil {
			task = own.newest(cached)
		}
		if !listed[task.UID] && query.matches(task) && (query.After == nil || query.After.compare(placeOf(task)) < 0) {
			page = append(page, task)
		}
	}
	if len(page) > before {
		slices.SortStableFunc(page, func(a, b *v1alpha1.CompileTask) int { return placeOf(a).compare(placeOf(b)) })
	}
	return page
}

func (q Query) matches(task *v1alpha1.CompileTask) bool { return q.Match == nil || q.Match(task) }
