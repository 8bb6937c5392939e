import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { type LogPosition } from './position.js';

const { Options } = streams.ReadReq;

/** Events of other streams between two checkpoints of a subscription: a sign of life every few milliseconds. */
const SEARCH_WINDOW = 1_000;

/** Asks for all events, existing and future ones, after a position, of streams that begin with one of these. */
export const subscriptionRequest = (after: LogPosition, prefixes: readonly string[]): streams.ReadReq => {
  const position = new Options.Position()
    .setCommitPosition(String(after.commit))
    .setPreparePosition(String(after.prepare));
  const filter = new Options.FilterOptions()
    .setStreamIdentifier(new Options.FilterOptions.Expression().setPrefixList([...prefixes]))
    .setMax(SEARCH_WINDOW)
    .setCheckpointintervalmultiplier(1);
  const options = new Options()
    .setAll(new Options.AllOptions().setPosition(position))
    .setSubscription(new Options.SubscriptionOptions())
    .setFilter(filter)
    .setUuidOption(new Options.UUIDOption().setString(new shared.Empty()));
  return new streams.ReadReq().setOptions(options);
};
