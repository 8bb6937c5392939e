/**
 * Preloaded into what replays golden files (`node --import`): the clock begins at GOLDEN_NOW, an RFC 3339 instant. Later,
 * an auditor would record its checkpoint at once, since an hour has passed since the last record.
 */
const began = Date.now();
const offset = Date.parse(process.env.GOLDEN_NOW ?? '') - began;

if (!Number.isNaN(offset)) {
  const RealDate = Date;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args: unknown[], newTarget) =>
      Reflect.construct(target, args.length === 0 ? [RealDate.now() + offset] : args, newTarget) as Date,
    get: (target, name, receiver) =>
      name === 'now' ? () => RealDate.now() + offset : (Reflect.get(target, name, receiver) as unknown),
  });
}
export {};
