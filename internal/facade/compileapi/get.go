package compileapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/wire"
)

const pathTaskID = "task_id"

// get answers GET /api/v1/tasks/{task_id} (C.4). With "?wait" it answers when the
// record is no longer what it was, or what If-None-Match says it was, when the task
// has ended, and at the latest when the wait is over.
func (a *API) get(w http.ResponseWriter, r *http.Request) error {
	ctx, info, id := r.Context(), httpapi.InfoOf(r.Context()), r.PathValue(pathTaskID)
	wait, err := a.waitOf(r, info)
	if err != nil {
		return err
	}
	task, err := a.find(ctx, info, id)
	if err != nil {
		return err
	}
	current, err := a.represent(ctx, task)
	if err != nil {
		return err
	}
	if wait > 0 && !current.terminal && (len(r.Header.Values("If-None-Match")) == 0 || current.known(r.Header)) {
		if current, err = a.await(ctx, info, id, task, current, wait); err != nil {
			return err
		}
	}
	if current.known(r.Header) {
		notModified(w, current)
		return nil
	}
	return a.show(w, info, http.StatusOK, current)
}

// waitOf reads "?wait": a Go duration or whole seconds, capped at what a request of
// its kind may take.
func (a *API) waitOf(r *http.Request, info *httpapi.Info) (time.Duration, error) {
	query, err := queryOf(r)
	if err != nil {
		return 0, err
	}
	text := query.Get("wait")
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if count, isCount := strconv.ParseUint(text, 10, 16); isCount == nil {
		wait, err = time.Duration(count)*time.Second, nil
	}
	if err != nil || wait < 0 {
		return 0, queryFault("wait", "must be a duration such as 30s, or whole seconds")
	}
	if info.Aggregated {
		return min(wait, a.limits.MaxAggregatedWait), nil
	}
	return min(wait, a.limits.MaxWait), nil
}

// await returns the first representation that is not seen, or the newest one when
// the wait is over or the server drains. What it returns the caller may still see.
func (a *API) await(ctx context.Context, info *httpapi.Info, id string, task *v1alpha1.CompileTask, seen representation, wait time.Duration) (representation, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := a.tasks.Watch(ctx, task)
	if err != nil {
		return representation{}, storeError("watch the task", err)
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	recheck := time.NewTicker(a.limits.Recheck)
	defer recheck.Stop()
	newest := seen
	for newest.etag == seen.etag && !newest.terminal {
		select {
		case state, open := <-changes:
			if !open {
				return representation{}, gone(ctx, id)
			}
			if newest, err = a.represent(ctx, state); err != nil {
				return representation{}, err
			}
			continue
		case <-recheck.C:
			if err := a.mayWaitOn(ctx, info, id, task); err != nil {
				return representation{}, err
			}
			continue
		case <-timeout.C:
		case <-info.Draining:
		case <-ctx.Done():
			return representation{}, ctx.Err()
		}
		break
	}
	return newest, a.recheck(ctx, info, id, task)
}

// mayWaitOn ends a wait whose reader lost the right or the credential. That nobody can
// say is borne: the check at the wait's end counts.
func (a *API) mayWaitOn(ctx context.Context, info *httpapi.Info, id string, task *v1alpha1.CompileTask) error {
	asking, cancel := context.WithTimeout(ctx, a.limits.Recheck)
	defer cancel()
	err := a.recheck(asking, info, id, task)
	if err == nil || asking.Err() != nil && ctx.Err() == nil || wire.AsError(err).Code == wire.CodeUnavailable {
		return nil
	}
	return err
}

// gone is what the end of a watch tells: the task is not there any more, unless it
// was the client who went away.
func gone(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return taskNotFound(id)
}

// recheck asks again who the caller is and whether they may see the task.
func (a *API) recheck(ctx context.Context, info *httpapi.Info, id string, task *v1alpha1.CompileTask) error {
	if info.Recheck != nil {
		if err := info.Recheck(ctx); err != nil {
			return err
		}
	}
	who, err := a.reader(ctx, info)
	if err != nil {
		return err
	}
	if !who.sees(task) {
		return taskNotFound(id)
	}
	return nil
}

// queryFault is the error of one parameter of the query.
func queryFault(name, message string) *wire.Error {
	return wire.Invalid(wire.Violation{Loc: []any{"query", name}, Message: message, Type: violationValue})
}
