import { Delete, Get, HttpCode, Post, Req, Res, UseGuards } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { BearerGuard, Scopes } from './auth/bearer.guard.js';
import { type GuardedRequest, type Scope } from './auth/principal.js';
import { type ProblemCode } from './problem.js';
import {
  acceptedOf,
  readBody,
  readBodyIfAny,
  readQuery,
  readValue,
  refuseBody,
  splitUrl,
} from './requests.js';

/** A JSON Schema. */
export type Schema = Readonly<Record<string, unknown>>;

/** A header field of an answer. */
export interface Header {
  readonly description: string;
  readonly schema: z.ZodType | Schema;
}

/** A body in one media type. */
export interface Content {
  /** Of zod, or a JSON Schema that may hold some of zod. */
  readonly schema: z.ZodType | Schema;
  readonly examples?: Readonly<Record<string, { readonly summary?: string; readonly value: unknown }>>;
}

export interface Answer {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Header>>;
  /** By media types. */
  readonly content?: Readonly<Record<string, Content>>;
}

/** A route: all that is said of it, for its controller, its clients and its document. */
export interface Route {
  readonly method: keyof typeof DECORATORS;
  /** As OpenAPI writes it: `{name}` is a parameter; one with the name `path` takes the rest of the path. */
  readonly path: string;
  readonly scope: Scope | 'no token';
  readonly summary: string;
  readonly description: string;
  /** The parameters of the path: schemas of zod are read, those of JSON are for the document. */
  readonly params?: Readonly<Record<string, z.ZodType | Schema>>;
  readonly query?: z.ZodObject;
  /** Header fields: schemas of zod are read, those of JSON are for the document. */
  readonly headers?: Readonly<Record<string, z.ZodType | Schema>>;
  readonly body?: z.ZodObject;
  /** A body that may be left out, as all that is in it. */
  readonly optionalBody?: z.ZodObject;
  /** A body that the handler reads. */
  readonly rawBody?: NonNullable<Answer['content']>;
  /** Of the body. */
  readonly example?: unknown;
  /** The media types of the answer, the usual one first; `any` where Accept is not looked at. JSON where it is not said. */
  readonly types?: readonly [string, ...string[]] | 'any';
  /** The answer has an ETag, and is 304 to a client that has it. */
  readonly hasTag?: true;
  /** The answers that are no errors, the usual one first. */
  readonly answers: Readonly<Record<number, Answer>>;
  /** Beside those that every route has by its method, its body and its scope. */
  readonly problems?: readonly ProblemCode[];
}

/** The parts of a request that the row of its route reads. */
export type RequestToRead = Pick<GuardedRequest, 'url' | 'headers' | 'params' | 'body'>;

/** A request of a route, checked by the schemas of its row. */
export interface Asked<Row extends Route, Request = GuardedRequest> {
  readonly request: Request;
  /** The media type to answer with. */
  readonly type: string;
  readonly params: Values<NonNullable<Row['params']>, string>;
  readonly query: Output<Row['query']>;
  readonly headers: Values<NonNullable<Row['headers']>, unknown>;
  readonly body: Output<Row['body']> & Output<Row['optionalBody']>;
}

type Values<Schemas, Unread> = {
  readonly [Name in keyof Schemas]: Schemas[Name] extends z.ZodType ? z.output<Schemas[Name]> : Unread;
};

type Output<Schema> = Schema extends z.ZodObject ? z.output<Schema> : unknown;

/** The routes of an area, by the ids of their operations. */
export type Routes = Readonly<Record<string, Route>>;

const DECORATORS = { GET: Get, POST: Post, DELETE: Delete };

type Handler<Row extends Route> = (asked: Asked<Row>, reply: FastifyReply) => unknown;

type HandlerDecorator<Row extends Route> = <Method extends Handler<Row>>(
  target: object,
  name: string,
  descriptor: TypedPropertyDescriptor<Method>,
) => void;

/** Makes a method the handler of a route: what it returns is the body. It is called for valid requests alone. */
export const Handles = <Row extends Route>(row: Row): HandlerDecorator<Row> =>
  handles(row, Res({ passthrough: true }));

/** As `Handles`, for a method that sends the answer by itself. */
export const HandlesAndSends = <Row extends Route>(row: Row): HandlerDecorator<Row> => handles(row, Res());

const handles =
  <Row extends Route>(row: Row, reply: ParameterDecorator): HandlerDecorator<Row> =>
  (target, name, descriptor) => {
    const { value: handle } = descriptor;
    const read = readerOf(row);
    const method = descriptor as TypedPropertyDescriptor<unknown>;
    method.value = function (this: object, request: GuardedRequest, answer: FastifyReply): unknown {
      return handle?.call(this, read(request), answer);
    };
    const path = row.path.replace('{path}', '*').replace(/\{(\w+)\}/g, ':$1');
    const [status] = Object.keys(row.answers);
    for (const decorate of [
      DECORATORS[row.method](path),
      HttpCode(Number(status)),
      ...(row.scope === 'no token' ? [] : [UseGuards(BearerGuard), Scopes(row.scope)]),
    ])
      decorate(target, name, method);
    Req()(target, name, 0);
    reply(target, name, 1);
  };

const JSON_ALONE = ['application/json'] as const;
const NO_QUERY = z.strictObject({});

/** Queries of a route that are remembered as they were read, and how long they may be: most requests repeat one. */
const KNOWN_QUERIES = 100;
const KNOWN_LENGTH = 100;

/** Reads requests by the row of their route: the head before the body. Throws Problem. */
export const readerOf = <Row extends Route>(
  row: Row,
): (<Request extends RequestToRead>(request: Request) => Asked<Row, Request>) => {
  const { types = JSON_ALONE, query = NO_QUERY } = row;
  const params = valuesIn(row.params);
  const headers = valuesIn(row.headers, (name) => name.toLowerCase());
  const known = new LRUCache<string, object>({ max: KNOWN_QUERIES });
  const queryOf = ({ url }: RequestToRead): object => {
    const [, text] = splitUrl(url);
    const before = known.get(text);
    if (before) return before;
    const read = readQuery({ url }, query);
    if (text.length <= KNOWN_LENGTH) known.set(text, read);
    return read;
  };
  return <Request extends RequestToRead>(request: Request) =>
    ({
      request,
      type: types === 'any' ? '' : acceptedOf(request, types),
      query: queryOf(request),
      headers: headers(request.headers),
      params: params(request.params as Given),
      body: bodyOf(row, request),
    }) as Asked<Row, Request>;
};

type Given = Readonly<Record<string, unknown>>;

/** Reads values that have schemas of zod; others are left as they are. `keyOf` gives where one is found. */
const valuesIn = (
  schemas: Route['params'] = {},
  keyOf = (name: string) => name,
): ((given: Given) => Given) => {
  const rows = Object.entries(schemas).map(([name, schema]) => ({ name, schema, key: keyOf(name) }));
  return (given) => {
    const values: Record<string, unknown> = {};
    for (const { name, schema, key } of rows) {
      const value = given[key];
      if (value === undefined && schema instanceof z.ZodOptional) continue;
      values[name] = schema instanceof z.ZodType ? readValue(schema, value, name) : value;
    }
    return values;
  };
};

const bodyOf = ({ method, body, optionalBody, rawBody }: Route, request: RequestToRead): unknown => {
  if (body) return readBody(request, body);
  if (optionalBody) return readBodyIfAny(request, optionalBody);
  if (method !== 'GET' && !rawBody) refuseBody(request);
  return undefined;
};
