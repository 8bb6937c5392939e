import { Gauge, type Registry } from 'prom-client';
import { type Auditor, type AuditorState } from '../audit/auditor.js';

/** Every state of an auditor. */
const STATES = Object.keys({
  starting: 0,
  catching_up: 0,
  live: 0,
  disconnected: 0,
  blocked: 0,
  alarm: 0,
} satisfies Record<AuditorState, 0>);

/** Adds what the auditor of this process does. */
export const showTree = (registry: Registry, auditor: Pick<Auditor, 'status'>, now: () => Date): void => {
  const registers = [registry];
  const age = (at: string): number => Math.max(0, (now().getTime() - Date.parse(at)) / 1_000);
  new Gauge({
    name: 'plants_auditor_state',
    help: '1 for what the auditor of this process does, 0 for everything else.',
    labelNames: ['state'],
    registers,
    collect() {
      for (const state of STATES) this.set({ state }, state === auditor.status.state ? 1 : 0);
    },
  });
  new Gauge({
    name: 'plants_tree_size',
    help: 'Events in the tree of this process.',
    registers,
    collect() {
      this.set(auditor.status.size);
    },
  });
  new Gauge({
    name: 'plants_tree_alarm',
    help: '1 while the log, or the tree, is not what was signed, else 0.',
    registers,
    collect() {
      this.set(auditor.status.alarm ? 1 : 0);
    },
  });
  new Gauge({
    name: 'plants_tree_signing_warnings',
    help: 'Warnings about what is signed: another key, another tree, or another history than the log records.',
    registers,
    collect() {
      this.set(auditor.status.signing?.warnings.length ?? 0);
    },
  });
  new Gauge({
    name: 'plants_tree_doubtful_times',
    help: 'Events whose times contradict the checkpoints signed around them, as the last re-reading found.',
    registers,
    collect() {
      this.set(auditor.status.times?.count ?? 0);
    },
  });
  new Gauge({
    name: 'plants_tree_unsigned_events',
    help: 'Events in the tree that no checkpoint covers yet.',
    registers,
    collect() {
      const { size, checkpoint } = auditor.status;
      this.set(Math.max(0, size - (checkpoint?.size ?? 0)));
    },
  });
  new Gauge({
    name: 'plants_tree_checkpoint_age_seconds',
    help: 'How long ago the last checkpoint was signed; absent before the first one.',
    registers,
    collect() {
      const { checkpoint } = auditor.status;
      if (checkpoint) this.set(age(checkpoint.signedAt));
      else this.remove();
    },
  });
  new Gauge({
    name: 'plants_tree_recheck_age_seconds',
    help: 'How long ago the whole log was last found as it was signed; absent before the first time.',
    registers,
    collect() {
      const { recheckedAt } = auditor.status;
      if (recheckedAt === undefined) this.remove();
      else this.set(age(recheckedAt));
    },
  });
};
