import { describe, expect, it } from '@jest/globals';
import { eventLine } from '../../../src/cli/event-line.js';
import { plantStream } from '../../../src/domain/stream.js';
import { type Position, type RecordedEvent } from '../../../src/log/event-log.js';
import { sampleMetadata } from '../../support/log-events.js';

const recorded = (changes: Partial<RecordedEvent> = {}): RecordedEvent => ({
  id: '2f1e4fc0-81fd-41da-9156-92036e9e7ef9',
  position: '0000000000000007' as Position,
  stream: plantStream('anne', 1),
  revision: 0n,
  type: 'PlantCreated',
  data: { id: 1, name: 'Monstera', tag: '' },
  metadata: sampleMetadata({ actor: { sub: 'anne' } }),
  ...changes,
});

describe('the line of an event, for a person', () => {
  it('names who owns the plant and who has written the event', () => {
    expect(eventLine(recorded())).toMatch(
      /^0000000000000007 {2}\d{4}-\d\d-\d\dT.* {2}anne plants\/1 {2}PlantCreated \{"id":1,"name":"Monstera","tag":""\} {2}by anne$/,
    );
    const actor = { sub: 'anne', clientId: 'phone' };
    expect(eventLine(recorded({ metadata: sampleMetadata({ actor }) }))).toMatch(/ {2}by anne \(phone\)$/);
  });

  it('says why an event cannot be read, and shows what is there all the same', () => {
    expect(eventLine(recorded({ metadata: null, data: null, stream: 'somebody/else' }))).toMatch(
      /^\d+ {2}at an unknown time {8}somebody\/else {2}PlantCreated null {2}CANNOT BE READ: /,
    );
  });

  it('names the operation that is no plant', () => {
    const data = { stream: plantStream('anne', 1), revision: 0, reason: 'broken' };
    const line = eventLine(recorded({ stream: 'operation-skips', type: 'EventSkipped', data }));
    expect(line).toContain('EventSkipped {');
    expect(line).not.toContain('CANNOT BE READ');
  });

  it('cuts what is very long, and escapes what would change the terminal', () => {
    const line = eventLine(recorded({ data: { id: 1, name: `\u{9b}31m${'a'.repeat(5_000)}`, tag: '' } }));
    expect(line).toContain('a…  by anne');
    expect(line.length).toBeLessThan(2_500);
    expect(line).not.toContain('\u{9b}');
  });
});
