import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { type Answer, type HttpClient, problemIn, served, ofThisTest } from '../../support/http-client.js';
import { runCli } from '../../support/http-cli.js';
import { samplesIn } from '../../support/samples.js';
import { TestService } from '../../support/service.js';
import { STORES } from '../../support/stores-of-this-run.js';

const OWNER = 'owner-of-nothing-else';

const http = served({ WRITE_WAIT_MS: '10000' });

const scrape = (client: HttpClient, method = 'GET'): Promise<Answer> =>
  client.send({ path: '/metrics', method });

/** The names of all figures that a text describes, those without a sample included. */
const namesIn = (text: string): string[] =>
  Array.from(text.matchAll(/^# TYPE (\w+) /gm), ([, name = '']) => name);

/** The names of figures that an expression of PromQL asks for. */
const askedIn = (expression: string): string[] =>
  Array.from(
    expression
      .replace(/"[^"]*"/g, '')
      .replace(/\{[^}]*\}/g, '')
      .matchAll(/\b(?:plants|nodejs|process)_\w+/g),
    ([name]) => name,
  );

describe('/metrics', () => {
  it('shows what has happened, to whoever asks without a token', async () => {
    const token = await http.token(OWNER);
    for (const id of [1, 2, 3])
      await http.create({ name: 'secret name', tag: 't', id: id * 123_457 }, { token });
    await http.list('', { token });
    await http.delete(123_457, { token });
    await http.refused(http.create({ name: 'n', tag: '', id: 246_914 }, { token }), 409, 'plant_exists');
    await http.send({ path: '/nothing/246914' });

    const { status, headers, text } = await scrape(http);
    expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
    const samples = samplesIn(text.replace(/generation="\d+"/, 'generation="active"'));
    const expected = {
      'plants_http_requests_total{method="POST",route="/plants",status="201"}': 3,
      'plants_http_requests_total{method="POST",route="/plants",status="409"}': 1,
      'plants_http_requests_total{method="GET",route="/plants",status="200"}': 1,
      'plants_http_requests_total{method="DELETE",route="/plants/:id",status="204"}': 1,
      'plants_http_requests_total{method="GET",route="none",status="404"}': 1,
      'plants_http_problems_total{method="POST",route="/plants",code="plant_exists"}': 1,
      'plants_http_request_duration_seconds_count{method="POST",route="/plants"}': 4,
      'plants_event_log_append_duration_seconds_count{outcome="written"}': 4,
      'plants_freshness_wait_duration_seconds_count{outcome="reached"}': 4,
      'plants_freshness_wait_duration_seconds_count{outcome="given_up"}': 0,
      'plants_projection_events_applied_total{generation="active"}': 4,
      plants_read_model_regressions_total: 0,
      'plants_projector_state{state="live"}': 1,
      plants_projection_lag_seconds: 0,
      'plants_token_cache_lookups_total{result="miss"}': 1,
      plants_token_cache_entries: 1,
    };
    expect(Object.fromEntries(Object.keys(expected).map((name) => [name, samples.get(name)]))).toEqual(
      expected,
    );
    // If the end of the log is not known when the list comes, its page and its token are looked up a second time.
    const lists = samples.get('plants_read_model_list_duration_seconds_count{outcome="answered"}') ?? 0;
    expect([1, 2]).toContain(lists);
    expect(samples.get('plants_token_cache_lookups_total{result="hit"}')).toBe(4 + lists);
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    const build = `plants_build_info{version="${version}",node="${process.versions.node}"}`;
    expect(samples.get(build)).toBe(1);
    expect(samples.get('plants_projection_lag_events')).toBe(STORES === 'embedded' ? 0 : undefined);
    // Four were written; that of the plant that exists was refused by the log.
    expect(samples.get('plants_event_log_commit_appends_sum')).toBe(STORES === 'embedded' ? 5 : 0);
    expect(samples.get('nodejs_eventloop_lag_p99_seconds')).toBeGreaterThan(0);
  });

  it('names no owner, no plant and no token', async () => {
    const { text } = await scrape(http);
    for (const secret of [OWNER, '123457', '246914', 'secret name', 'eyJ', 'nothing'])
      expect(text).not.toContain(secret);
  });

  it('is one of the routes: HEAD, 405 with Allow, no query', async () => {
    const head = await scrape(http, 'HEAD');
    expect([head.status, head.text]).toEqual([200, '']);
    const refused = await scrape(http, 'POST');
    problemIn(refused, 405, 'method_not_allowed');
    expect(refused.headers.allow).toBe('GET, HEAD, OPTIONS');
    problemIn(await http.send({ path: '/metrics?token=x' }), 400, 'invalid_request', ['?token']);
  });

  it('is not logged where one scrape every few seconds would bury the rest', () => {
    const paths = http.service.logged.map(({ path }) => path);
    expect(paths).toContain('/plants');
    expect(paths).not.toContain('/metrics');
  });

  it('shows when the last backup was made, and when the lists were compared with the log', async () => {
    const times = async (): Promise<readonly (number | undefined)[]> => {
      const samples = samplesIn((await scrape(http)).text);
      return [
        samples.get('plants_last_backup_timestamp_seconds'),
        samples.get('plants_last_verify_timestamp_seconds'),
        samples.get('plants_last_verify_differing_plants'),
      ];
    };
    expect(await times()).toEqual([undefined, undefined, undefined]);
    const began = Date.now() / 1_000;
    const { env, dataDir } = http.service;
    if (STORES === 'embedded')
      expect(await runCli(['backup', '--to', join(dataDir, 'copy.db')], env)).toMatchObject({ status: 0 });
    expect(await runCli(['verify'], env)).toMatchObject({ status: 0 });
    const [backup, verify, differing] = await times();
    expect(verify).toBeGreaterThanOrEqual(began - 0.001);
    expect(differing).toBe(0);
    if (STORES === 'embedded') expect(backup).toBeGreaterThanOrEqual(began - 0.001);
    else expect(backup).toBeUndefined();
  });

  it('shows files, readiness and skipped events', async () => {
    // A command that closes the log may have emptied its write-ahead log.
    await http.create({ name: 'n', tag: '', id: 1 }, { token: await http.token('another owner') });
    const samples = samplesIn((await scrape(http)).text);
    const parts = ['data_dir', ...(STORES === 'embedded' ? ['event_log', 'read_model'] : [])];
    for (const part of parts) {
      const free = samples.get(`plants_disk_free_bytes{part="${part}"}`);
      expect(free).toBeGreaterThan(0);
      expect(free).toBeLessThan(samples.get(`plants_disk_size_bytes{part="${part}"}`) ?? 0);
    }
    if (STORES === 'embedded') expect(samples.get('plants_wal_bytes{store="event_log"}')).toBeGreaterThan(0);
    expect(samples.get('plants_skipped_events')).toBe(0);
    const ready = [...samples].filter(([name]) => name.startsWith('plants_ready'));
    expect(ready).toEqual(
      ['process', 'event_log', 'read_model', 'projector', 'auditor'].map((part) => [
        `plants_ready{part="${part}"}`,
        1,
      ]),
    );
  });

  it('tells which lists were 503, and why', async () => {
    const alone = ofThisTest(await TestService.startBlocked({ WRITE_WAIT_MS: '0' }));
    await alone.refused(alone.list(), 503, 'read_model_incomplete');
    const samples = samplesIn((await scrape(alone)).text);
    const [code, incomplete] = ['read_model_incomplete', 'incomplete'];
    expect(samples.get(`plants_http_problems_total{method="GET",route="/plants",code="${code}"}`)).toBe(1);
    expect(samples.get(`plants_read_model_list_duration_seconds_count{outcome="${incomplete}"}`)).toBe(1);
    expect(samples.get('plants_ready{part="read_model"}')).toBe(0);
    expect(samples.get('plants_ready{part="event_log"}')).toBe(1);
  });
});

describe('what is made of the figures', () => {
  interface Rule {
    readonly alert: string;
    readonly expr: string;
    readonly labels: { readonly severity: string };
    readonly annotations: { readonly summary: string; readonly action: string; readonly runbook: string };
  }
  const { groups } = parse(readFileSync('docs/alerts.yml', 'utf8')) as { groups: { rules: Rule[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  const dashboard = JSON.parse(readFileSync('docs/grafana-dashboard.json', 'utf8')) as {
    panels: { title: string; targets?: { expr: string }[] }[];
    templating: { list: { name: string; definition?: string }[] };
  };
  const documentation = readFileSync('docs/metrics.md', 'utf8');
  let known: string[];
  beforeAll(async () => {
    const names = namesIn((await scrape(http)).text);
    known = names.flatMap((name) => [name, `${name}_bucket`, `${name}_sum`, `${name}_count`]);
  });

  it('the dashboard asks for nothing that is not there', () => {
    const panels = dashboard.panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => [title, askedIn(expr)] as const),
    );
    expect(panels.length).toBeGreaterThan(20);
    for (const [title, names] of panels)
      for (const name of names) expect([title, known]).toEqual([title, expect.arrayContaining([name])]);
    for (const { definition } of dashboard.templating.list)
      if (definition !== undefined) expect(known).toEqual(expect.arrayContaining(askedIn(definition)));
  });

  it('alerts ask for nothing that is not there', () => {
    expect(rules.length).toBeGreaterThan(5);
    for (const { alert, expr } of rules)
      for (const name of askedIn(expr))
        expect([alert, known]).toEqual([alert, expect.arrayContaining([name])]);
  });

  it('every alert says how bad it is, what to do, and where more about that stands', () => {
    const headings = Array.from(documentation.matchAll(/^#+ (.*)$/gm), ([, title = '']) =>
      title.toLowerCase(),
    );
    for (const { alert, labels, annotations } of rules) {
      expect(['critical', 'warning', 'info']).toContain(labels.severity);
      for (const text of [annotations.summary, annotations.action]) expect(text).toMatch(/\w/);
      expect(annotations.runbook).toBe(`docs/metrics.md#${alert.toLowerCase()}`);
      expect(headings).toContain(alert.toLowerCase());
    }
  });

  it('every figure of ours is explained, and no other one', () => {
    const explained = Array.from(documentation.matchAll(/^\| `(plants_\w+)`/gm), ([, name = '']) => name);
    const ours = known.filter((name) => name.startsWith('plants_') && !/_(bucket|sum|count)$/.test(name));
    expect(explained.sort()).toEqual(ours.sort());
  });

  it('the public proxy hides them, however the path is written, before it chooses a process', () => {
    const lines = readFileSync('deploy/haproxy.cfg', 'utf8').split('\n');
    const hidden = lines.findIndex((line) =>
      /^ +http-request return status 404 .* if \{ path,url_dec -m beg \/metrics \}$/.test(line),
    );
    expect(hidden).toBeGreaterThan(lines.indexOf('frontend public'));
    expect(hidden).toBeLessThan(lines.findIndex((line) => line.includes('use_backend')));
  });
});
