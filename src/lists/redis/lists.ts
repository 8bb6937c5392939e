import { encodeOwner } from '../../domain/stream.js';
import { type Position } from '../../log/event-log.js';
import { type Generation, type Page, type PartitionChanges, partitionOf } from '../read-model.js';
import { type RedisCalls } from './calls.js';
import { type Deadline } from './deadline.js';
import { type Script, APPLY, LIST, PAGE } from './scripts.js';
import { anchorText, lastOfEachPlant, memberOf, pageOf, blockedText, scoredPageOf } from './stored-texts.js';

type PageRequest = [
  generation: Generation,
  owner: string,
  after: number | undefined,
  limit: number,
  deadline: Deadline,
];

/** Reads and changes lists of a generation. */
export class RedisLists {
  constructor(private readonly calls: RedisCalls) {}

  /** A page; undefined where the generation lacks the partition. */
  async page(...request: PageRequest): Promise<Page | undefined> {
    const [generation, owner, , limit] = request;
    const text = await this.#runOnPage(LIST, request);
    return text === null ? undefined : { ...pageOf(text as string, owner, limit), generation };
  }

  async pageWithScores(...request: PageRequest): Promise<Page | undefined> {
    const [generation, owner, , limit] = request;
    const answer = await this.#runOnPage(PAGE, request);
    return answer === null
      ? undefined
      : { ...scoredPageOf(answer as [head: string, members: string[]], owner, limit), generation };
  }

  /** Runs LIST or PAGE, which take the same keys and arguments. */
  #runOnPage(script: Script, [generation, owner, after, limit, deadline]: PageRequest): Promise<unknown> {
    const partition = partitionOf(owner);
    const { keys } = this.calls;
    return this.calls.run(
      script,
      keys.slotOf(partition),
      [
        keys.anchor(generation, partition),
        keys.plants(generation, partition, owner),
        keys.blocked(generation, partition),
      ],
      [after === undefined ? '-inf' : `(${after}`, `${limit + 1}`, encodeOwner(owner)],
      deadline,
    );
  }

  /** The position afterwards; undefined where the generation lacks the partition. */
  async apply(
    generation: Generation,
    { partition, from, upTo, changes, refused = [] }: PartitionChanges,
    deadline: Deadline,
  ): Promise<Position | undefined> {
    const keys = [
      this.calls.keys.anchor(generation, partition),
      this.calls.keys.blocked(generation, partition),
    ];
    const args: string[] = [from, anchorText(upTo), `${refused.length}`];
    for (const event of refused) args.push(encodeOwner(event.owner), event.position, blockedText(event));
    const keyNumbers = new Map<string, number>();
    for (const { owner, id, row, position } of lastOfEachPlant(changes, refused)) {
      let number = keyNumbers.get(owner);
      if (number === undefined) {
        number = keys.push(this.calls.keys.plants(generation, partition, owner));
        keyNumbers.set(owner, number);
      }
      args.push(`${number}`, `${id}`, position, row === undefined ? '' : memberOf(id, row));
    }
    const reached = await this.calls.run(APPLY, this.calls.keys.slotOf(partition), keys, args, deadline);
    return (reached ?? undefined) as Position | undefined;
  }
}
