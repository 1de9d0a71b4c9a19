package tour

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/settle-run/settle/machines/enrich"
)

// calledBack plays a third party that finds a result, and then one that does not.
func (p *player) calledBack(ctx context.Context) ([]end, error) {
	p.title("A third party that calls back, once",
		"It gets a callback address for this instance only. While it works, nothing runs: the instance is",
		"an item in DynamoDB, and the task waits in Step Functions. Only its first callback is accepted.")
	const found, missed = "enrich/demo-7", "enrich/demo-8"
	p.log.SetColumns(len(found), len("done.invoke"))
	arn, party, err := p.ask(ctx, found, "https://example.com/company/7")
	if err != nil {
		return nil, err
	}
	if err := p.findByAlias(ctx, found, party.job); err != nil {
		return nil, err
	}
	data := map[string]any{"jobId": party.job, "success": true, "data": map[string]any{"name": "Acme", "employees": 250}}
	forged := party
	forged.callback = party.callback[:strings.LastIndexByte(party.callback, '/')+1] + "a-wrong-key"
	for _, try := range []struct {
		party asked
		want  int
	}{{forged, http.StatusNotFound}, {party, http.StatusAccepted}, {party, http.StatusConflict}} {
		if err := p.callBack(ctx, try.party, data, try.want); err != nil {
			return nil, err
		}
		if try.want != http.StatusAccepted {
			continue
		}
		if err := p.seen.await(ctx, found, "", "succeeded"); err != nil {
			return nil, err
		}
	}
	ended, err := p.ended(ctx, "enrich", arn, "Enrich")
	if err != nil {
		return nil, err
	}
	if err := p.showBeside(ctx, found, ended); err != nil {
		return nil, err
	}

	p.say("\n   Another one finds nothing. Its workflow receives the reason and takes another path.\n")
	arn, party, err = p.ask(ctx, missed, "https://example.com/company/8")
	if err != nil {
		return nil, err
	}
	if err := p.callBack(ctx, party, map[string]any{"jobId": party.job, "success": false, "error": "the page is gone"}, http.StatusAccepted); err != nil {
		return nil, err
	}
	if err := p.seen.await(ctx, missed, "", "failed"); err != nil {
		return nil, err
	}
	if ended, err = p.ended(ctx, "enrich", arn, "Enrich", "NothingFound"); err != nil {
		return nil, err
	}
	return []end{{found, []string{"succeeded"}}, {missed, []string{"failed"}}}, p.showBeside(ctx, missed, ended)
}

// ask starts the workflow. It returns what the third party knows once the instance waits for it.
func (p *player) ask(ctx context.Context, instance, subject string) (execution string, party asked, err error) {
	execution, err = p.startWorkflow(ctx, "enrich", instance, map[string]any{"subject": subject, "reference": strings.TrimPrefix(instance, "enrich/")})
	if err != nil {
		return "", asked{}, err
	}
	if err := p.seen.await(ctx, instance, "", "waiting"); err != nil {
		return "", asked{}, err
	}
	// The lookup fails until the alias is claimed.
	return execution, p.seen.lastAsked(), p.performed(ctx, instance)
}

// findByAlias looks up the instance by the third party's job ID.
func (p *player) findByAlias(ctx context.Context, instance, job string) error {
	answer, err := p.request(ctx, http.MethodGet, "/aliases/"+enrich.Alias(job), "", nil, nil, "", http.StatusOK)
	if err != nil {
		return err
	}
	var view struct {
		Instance   string   `json:"instance"`
		State      []string `json:"state"`
		Status     string   `json:"status"`
		NextEvents []string `json:"next_events"`
	}
	if err := json.Unmarshal(answer, &view); err != nil {
		return fmt.Errorf("reading the instance with the alias %s: %w", enrich.Alias(job), err)
	}
	p.say("     %s", p.config.Style.Dim(oneLine(view)))
	if view.Instance != instance {
		return fmt.Errorf("expected %s to have the alias %s, got %s", instance, enrich.Alias(job), view.Instance)
	}
	return nil
}

// callBack posts to the callback address. Most of its key is not printed.
func (p *player) callBack(ctx context.Context, party asked, body map[string]any, want int) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	path := strings.TrimPrefix(party.callback, p.stack.HTTPURL())
	return p.post(ctx, path, shortened(path), jsonHeader(), text, fmt.Sprintf(`{"success": %v, ...}`, body["success"]), want)
}

// keyShown is how much of a callback key is printed.
const keyShown = 12

// shortened returns a callback address without most of its key, because the key authorizes a callback.
func shortened(address string) string {
	key := address[strings.LastIndexByte(address, '/')+1:]
	if len(key) <= keyShown {
		return address
	}
	return strings.TrimSuffix(address, key) + key[:keyShown/2] + "..."
}
