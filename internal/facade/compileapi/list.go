package compileapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentruntime/operator/api/v1alpha1"
	"github.com/agentruntime/operator/internal/access"
	"github.com/agentruntime/operator/internal/facade/httpapi"
	"github.com/agentruntime/operator/internal/facade/tasks"
	"github.com/agentruntime/operator/internal/facade/wire"
)

const (
	defaultLimit = 50
	maxLimit     = 200
	// maxSearchChars bounds q.
	maxSearchChars = 200
	// maxQueryBytes bounds one other parameter that is looked for in tasks: several
	// sources are joined in resource_id.
	maxQueryBytes = 1 << 16
	// maxListBytes bounds a list's records. A list that would be larger ends early,
	// so that results, which may be large, can't exhaust the server.
	maxListBytes = 16 << 20

	scopeNamespace = "namespace"
	modeCursor     = "cursor"
)

// listRequest is the query of GET /api/v1/tasks (C.5). Empty filters are none.
type listRequest struct {
	taskType, status, resourceID string
	// search is q in lower case.
	search string
	limit  int
	// namespace asks for everybody's tasks.
	namespace bool
	// cursors asks for pages; cursor is where the page begins, empty for the first.
	cursors bool
	cursor  string
}

// page is the result in cursor mode.
type page struct {
	Items      []record `json:"items"`
	HasMore    bool     `json:"has_more"`
	NextCursor *string  `json:"next_cursor"`
}

// list answers GET /api/v1/tasks: the caller's own tasks, newest first; with
// "?scope=namespace" everybody's, for those who may see them.
func (a *API) list(w http.ResponseWriter, r *http.Request) error {
	info := httpapi.InfoOf(r.Context())
	request, err := listRequestOf(r)
	if err != nil {
		return err
	}
	query, err := a.queryFor(r, info, request)
	if err != nil {
		return err
	}
	found, more, err := a.tasks.List(r.Context(), query)
	if err != nil {
		return storeError("list tasks", err)
	}
	// What is written is held until the client has read it.
	memory := a.answers.claim(info.Caller.User.Username)
	defer memory.release()
	records, err := a.records(r, found, memory)
	if err != nil {
		return err
	}
	if !request.cursors {
		return wire.OK(w, http.StatusOK, records)
	}
	more = more || len(records) < len(found)
	answer := page{Items: records, HasMore: more}
	if more && len(records) > 0 {
		last := found[len(records)-1]
		next, err := a.signCursor(r.Context(), info, request, tasks.Place{Created: tasks.CreatedAt(last), ID: last.TaskID()})
		if err != nil {
			return err
		}
		answer.NextCursor = &next
	}
	return wire.OK(w, http.StatusOK, answer)
}

// queryFor turns a request into what the store is asked, once the caller may ask it.
func (a *API) queryFor(r *http.Request, info *httpapi.Info, request listRequest) (tasks.Query, error) {
	query := tasks.Query{Namespace: info.Namespace, Limit: request.limit}
	if request.filters() {
		query.Match = request.matches
	}
	may := access.CanListAny
	if !request.namespace {
		may, query.Requester = access.CanReadOwn, info.Caller.User.Username
	}
	if err := a.require(r.Context(), info, may); err != nil {
		return tasks.Query{}, err
	}
	if !request.namespace && query.Requester == "" {
		// It would mean everybody's. Authorizers allow nobody without a name.
		return tasks.Query{}, errors.New("list tasks: the caller has no name")
	}
	if request.cursor != "" {
		after, err := a.openCursor(r.Context(), info, request)
		if err != nil {
			return tasks.Query{}, err
		}
		query.After = &after
	}
	return query, nil
}

// records makes the records of a list, as many as its bound in bytes allows but at
// least one, and claims the memory for them. It is never nil.
func (a *API) records(r *http.Request, found []*v1alpha1.CompileTask, memory *claim) ([]record, error) {
	out, size := make([]record, 0, len(found)), 0
	for _, task := range found {
		one, err := a.record(r.Context(), task)
		if err != nil {
			return nil, err
		}
		size += len(one.Result)
		for _, member := range one.Meta {
			size += len(member)
		}
		if size > maxListBytes && len(out) > 0 {
			break
		}
		if err := memory.reach(size); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// filters reports whether there is anything to match: without it a list costs what it
// shows, however many tasks there are.
func (l listRequest) filters() bool {
	return l.taskType != "" || l.status != "" || l.resourceID != "" || l.search != ""
}

// matches reports whether the task fits all filters.
func (l listRequest) matches(task *v1alpha1.CompileTask) bool {
	if l.taskType != "" && l.taskType != taskType || l.status != "" && l.status != statusOfTask(task) {
		return false
	}
	from, to, skill := canonicalOf(task)
	if l.resourceID != "" && l.resourceID != strings.Join(from, sourceSeparator) {
		return false
	}
	if l.search == "" {
		return true
	}
	for _, text := range append([]string{task.TaskID(), skill, to}, from...) {
		if strings.Contains(strings.ToLower(text), l.search) {
			return true
		}
	}
	return false
}

// queryOf parses the query strictly: what can't be read is a fault, not nothing.
func queryOf(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, told(wire.Errorf(wire.CodeInvalidArgument, "the query of the URL is malformed"), "parse the query", err)
	}
	return query, nil
}

func listRequestOf(r *http.Request) (listRequest, error) {
	query, err := queryOf(r)
	if err != nil {
		return listRequest{}, err
	}
	request := listRequest{
		taskType: query.Get("task_type"), status: query.Get("status"), resourceID: query.Get("resource_id"),
		cursor: query.Get("cursor"),
	}
	for _, parse := range []func(url.Values) error{
		request.parseLimit, parseInternal, request.parseScope, request.parseMode, request.parseSearch,
	} {
		if err := parse(query); err != nil {
			return listRequest{}, err
		}
	}
	for name, value := range map[string]string{"task_type": request.taskType, "status": request.status, "resource_id": request.resourceID} {
		if len(value) > maxQueryBytes {
			return listRequest{}, queryFault(name, "is too long")
		}
	}
	return request, nil
}

func (l *listRequest) parseLimit(query url.Values) error {
	l.limit = defaultLimit
	text := query.Get("limit")
	if text == "" && !query.Has("limit") {
		return nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxLimit {
		return queryFault("limit", fmt.Sprintf("must be a whole number from 1 to %d", maxLimit))
	}
	l.limit = limit
	return nil
}

// parseInternal accepts what asks for internal tasks too; there are none here.
func parseInternal(query url.Values) error {
	switch strings.ToLower(query.Get("include_internal")) {
	case "", "true", "false", "1", "0", "yes", "no", "on", "off":
		return nil
	}
	return queryFault("include_internal", "must be true or false")
}

func (l *listRequest) parseScope(query url.Values) error {
	switch query.Get("scope") {
	case "":
	case scopeNamespace:
		l.namespace = true
	default:
		return queryFault("scope", "must be "+scopeNamespace+" or left out")
	}
	return nil
}

func (l *listRequest) parseMode(query url.Values) error {
	switch query.Get("pagination") {
	case "":
		if l.cursor != "" {
			return queryFault("cursor", "needs pagination="+modeCursor)
		}
	case modeCursor:
		l.cursors = true
	default:
		return queryFault("pagination", "must be "+modeCursor+" or left out")
	}
	if len(l.cursor) > maxCursorBytes {
		return errCursor()
	}
	return nil
}

func (l *listRequest) parseSearch(query url.Values) error {
	search := query.Get("q")
	if utf8.RuneCountInString(search) > maxSearchChars {
		return queryFault("q", fmt.Sprintf("must not be longer than %d characters", maxSearchChars))
	}
	l.search = strings.ToLower(search)
	return nil
}
