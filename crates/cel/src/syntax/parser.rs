//! Tokens into a tree.

use std::sync::Arc;

use super::lexer::{Token, TokenKind, tokens};
use super::source::{Errors, Location, Source};
use super::{literal, macros};
use crate::ast::operator;
use crate::ast::{Call, Expr, Id, Kind, ListLiteral, Literal, MapEntry, Select, StructField, StructLiteral};
use crate::schema::is_reserved;

/// The longest expression, in code points.
const EXPRESSION_CODE_POINTS_MAX: usize = 100_000;
/// The largest nesting depth of brackets, calls and conditionals.
const NESTING_MAX: usize = 250;
/// The largest depth of the tree.
const DEPTH_MAX: u16 = 250;

/// A tree with the positions of its nodes.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) expr: Expr,
    /// The position of each node, in code points, by the node's number.
    pub(crate) positions: Vec<u32>,
    /// The list that takes the errors of later steps; empty.
    pub(crate) errors: Errors,
}

/// Parses an expression.
pub(crate) fn parse(text: &str) -> std::result::Result<Parsed, Errors> {
    let mut errors = Errors::new(Source::new(text));
    let size = text.chars().count();
    if size > EXPRESSION_CODE_POINTS_MAX {
        let message = format!(
            "expression code point size exceeds limit: size: {size}, limit {EXPRESSION_CODE_POINTS_MAX}"
        );
        errors.report(Location::NONE, message);
        return Err(errors);
    }
    let tokens = tokens(text, &mut errors);
    if errors.is_full() {
        errors.sort();
        return Err(errors);
    }
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        errors,
        positions: Vec::new(),
        depths: Vec::new(),
        nesting: 0,
        relations: 0,
        sums: 0,
        recovering: false,
    };
    let parsed = parser.start();
    let Parser { mut errors, positions, .. } = parser;
    match parsed {
        Ok(expr) if errors.is_empty() => Ok(Parsed { expr, positions, errors }),
        _ => {
            errors.sort();
            Err(errors)
        }
    }
}

/// The error is reported; nothing more can be parsed.
pub(super) struct Stop;

type Result<T> = std::result::Result<T, Stop>;

pub(super) struct Parser<'s> {
    text: &'s str,
    tokens: Vec<Token<'s>>,
    at: usize,
    errors: Errors,
    positions: Vec<u32>,
    /// The depth of the tree below each node, counting nodes that the API server's parser visits by recursion.
    depths: Vec<u16>,
    nesting: usize,
    /// The numbers of relations, and of sums and products, being parsed; a right operand counts as one of its own.
    relations: usize,
    sums: usize,
    /// Whether an error was reported and no token was accepted since. No more errors are reported then.
    recovering: bool,
}

impl<'s> Parser<'s> {
    fn start(&mut self) -> Result<Expr> {
        let expr = self.expression(&[])?;
        let next = self.peek();
        if next.kind != TokenKind::End {
            let extraneous = self.kind_after(1) == TokenKind::End;
            self.unexpected(if extraneous { "extraneous" } else { "mismatched" }, "<EOF>");
        }
        Ok(expr)
    }

    // Tokens.

    fn peek(&self) -> Token<'s> {
        self.tokens[self.at]
    }

    fn kind_after(&self, ahead: usize) -> TokenKind {
        self.tokens.get(self.at + ahead).map_or(TokenKind::End, |token| token.kind)
    }

    fn is(&self, kind: TokenKind) -> bool {
        self.peek().kind == kind
    }

    fn advance(&mut self) -> Token<'s> {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        self.recovering = false;
        token
    }

    /// Drops tokens up to one that can follow an operand, which is taken for one that did not parse.
    fn recover(&mut self) -> Expr {
        let offset = self.peek().offset;
        while !follows_operand(self.peek().kind) {
            self.at += 1;
        }
        self.recovering = true;
        self.new_node(offset, Kind::Unspecified)
    }

    fn report(&mut self, offset: usize, message: String) {
        if !self.recovering {
            self.errors.report_at(offset, message);
        }
    }

    fn take(&mut self, kind: TokenKind) -> Option<Token<'s>> {
        self.is(kind).then(|| self.advance())
    }

    /// The token that must come next. One token too much is dropped; `follows` says whether the token
    /// at hand could follow the missing one, which is then supplied.
    fn expect(&mut self, kind: TokenKind, name: &str, follows: fn(TokenKind) -> bool) -> Result<Token<'s>> {
        if let Some(token) = self.take(kind) {
            return Ok(token);
        }
        if self.kind_after(1) == kind && !self.is(TokenKind::End) {
            self.unexpected("extraneous", name);
            self.advance();
            return Ok(self.advance());
        }
        let found = self.peek();
        if follows(found.kind) {
            let message = format!("Syntax error: missing {name} at '{}'", found.text);
            self.report(found.offset, message);
            return Ok(found);
        }
        self.unexpected("mismatched", name);
        Err(Stop)
    }

    fn unexpected(&mut self, what: &str, expected: &str) {
        let Token { text, offset, .. } = self.peek();
        self.report(offset, format!("Syntax error: {what} input '{text}' expecting {expected}"));
    }

    fn no_alternative(&mut self, from: Token<'s>) -> Stop {
        let found = self.peek();
        let text = self.text_between(from, found);
        let message = match text.strip_prefix('.').filter(|word| matches!(*word, "true" | "false" | "null")) {
            Some(word) => format!("Syntax error: mismatched input '{word}' expecting IDENTIFIER"),
            None => format!("Syntax error: no viable alternative at input '{text}'"),
        };
        self.report(found.offset, message);
        Stop
    }

    /// The text from one token to the end of another.
    fn text_between(&self, from: Token<'s>, to: Token<'s>) -> &'s str {
        let end = match to.kind {
            TokenKind::End => from.start + from.text.len(),
            _ => to.start + to.text.len(),
        };
        self.text.get(from.start..end).unwrap_or("")
    }

    // Nodes.

    /// A new node at a position.
    pub(super) fn new_id(&mut self, offset: usize) -> Id {
        // Limited by the size of an expression.
        self.positions.push(u32::try_from(offset).unwrap_or(u32::MAX));
        self.depths.push(0);
        Id::try_from(self.positions.len() - 1).unwrap_or(Id::MAX)
    }

    pub(super) fn new_node(&mut self, offset: usize, kind: Kind) -> Expr {
        Expr { id: self.new_id(offset), kind }
    }

    pub(super) fn position(&self, id: Id) -> usize {
        self.positions[id as usize] as usize
    }

    pub(super) fn report_at_node(&mut self, node: &Expr, message: String) {
        let offset = self.position(node.id);
        self.errors.report_at(offset, message);
    }

    fn depth(&self, expr: &Expr) -> u16 {
        self.depths[expr.id as usize]
    }

    fn deepest<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> u16 {
        exprs.into_iter().map(|expr| self.depth(expr)).max().unwrap_or(0)
    }

    /// Records how deep the tree below a node is.
    fn set_depth(&mut self, expr: &Expr, depth: u16) -> Result<()> {
        if depth > DEPTH_MAX {
            self.errors.report(Location::NONE, "max recursion depth exceeded".into());
            return Err(Stop);
        }
        self.depths[expr.id as usize] = depth;
        Ok(())
    }

    fn call(&mut self, offset: usize, function: &str, args: Vec<Expr>) -> Expr {
        self.new_node(offset, Kind::Call(Call { function: Arc::from(function), target: None, args }))
    }

    // Grammar.

    /// `extra`: the tokens that may stand here beside an operand, in the order in which messages list them.
    fn expression(&mut self, extra: &[&str]) -> Result<Expr> {
        self.nesting += 1;
        self.assert_nesting(self.nesting)?;
        let condition = self.logical(TokenKind::Or, extra)?;
        let result = match self.take(TokenKind::Question) {
            None => condition,
            Some(question) => self.conditional(question, condition)?,
        };
        self.nesting -= 1;
        Ok(result)
    }

    fn assert_nesting(&mut self, depth: usize) -> Result<()> {
        if depth > NESTING_MAX {
            let message = format!("expression recursion limit exceeded: {NESTING_MAX}");
            self.errors.report(Location::NONE, message);
            return Err(Stop);
        }
        Ok(())
    }

    fn conditional(&mut self, question: Token<'s>, condition: Expr) -> Result<Expr> {
        let accepted = self.logical(TokenKind::Or, &[])?;
        self.expect(TokenKind::Colon, "':'", begins_operand)?;
        let otherwise = self.expression(&[])?;
        let depth = 1 + self.deepest([&condition, &accepted, &otherwise]);
        let expr = self.call(question.offset, operator::CONDITIONAL, vec![condition, accepted, otherwise]);
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    /// A chain of `||`, or of `&&`, as a balanced tree.
    fn logical(&mut self, operator_kind: TokenKind, extra: &[&str]) -> Result<Expr> {
        let is_or = operator_kind == TokenKind::Or;
        let mut operators = Vec::new();
        let mut terms = Vec::new();
        loop {
            let extra = if terms.is_empty() { extra } else { &[] };
            terms.push(Some(if is_or {
                self.logical(TokenKind::And, extra)?
            } else {
                self.binary(0, extra)?
            }));
            match self.take(operator_kind) {
                Some(token) => operators.push(token.offset),
                None => break,
            }
        }
        let function = if is_or { operator::LOGICAL_OR } else { operator::LOGICAL_AND };
        self.balanced(function, &operators, &mut terms)
    }

    fn balanced(&mut self, function: &str, operators: &[usize], terms: &mut [Option<Expr>]) -> Result<Expr> {
        if operators.is_empty() {
            return terms[0].take().ok_or(Stop);
        }
        let middle = operators.len() / 2;
        let (left, right) = terms.split_at_mut(middle + 1);
        let left = self.balanced(function, &operators[..middle], left)?;
        let right = self.balanced(function, &operators[middle + 1..], right)?;
        let depth = self.deepest([&left, &right]);
        let expr = self.call(operators[middle], function, vec![left, right]);
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    /// Relations, sums and products: operators of at least this precedence.
    fn binary(&mut self, precedence: u8, extra: &[&str]) -> Result<Expr> {
        let begins_relation = precedence < SUM_PRECEDENCE + 1;
        self.relations += usize::from(begins_relation);
        self.sums += 1;
        self.assert_nesting(self.relations.max(self.sums))?;
        let mut left = self.unary(extra)?;
        while let Some((of_operator, function)) = binary_operator(self.peek().kind) {
            if of_operator < precedence {
                break;
            }
            let operator = self.advance();
            let right = self.binary(of_operator + 1, &[])?;
            let depth = 1 + self.deepest([&left, &right]);
            left = self.call(operator.offset, function, vec![left, right]);
            self.set_depth(&left, depth)?;
        }
        self.relations -= usize::from(begins_relation);
        self.sums -= 1;
        Ok(left)
    }

    fn unary(&mut self, extra: &[&str]) -> Result<Expr> {
        let first = self.peek();
        let function = match first.kind {
            TokenKind::Exclamation => operator::LOGICAL_NOT,
            TokenKind::Minus => operator::NEGATE,
            _ => {
                return if self.at_operand(extra) { self.member() } else { Ok(self.recover()) };
            }
        };
        let mut count = 0;
        while self.is(first.kind) {
            // The last minus before a number is its sign.
            let signs = matches!(self.kind_after(1), TokenKind::Int | TokenKind::Float);
            if first.kind == TokenKind::Minus && signs && count == 0 {
                return self.member();
            }
            self.advance();
            count += 1;
        }
        let next = self.peek().kind;
        if first.kind == TokenKind::Minus && !begins_member(next) {
            let minus = self.tokens[self.at - 1];
            return Err(self.no_alternative(minus));
        }
        if !begins_member(next) && next != TokenKind::Minus {
            self.unexpected("extraneous", &operand_set(&[]));
            return Err(Stop);
        }
        let operand = self.member()?;
        if count % 2 == 0 {
            return Ok(operand);
        }
        let depth = self.depth(&operand);
        let expr = self.call(first.offset, function, vec![operand]);
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    /// Whether an operand begins here, perhaps behind one token that is too much.
    fn at_operand(&mut self, extra: &[&str]) -> bool {
        if begins_operand(self.peek().kind) {
            return true;
        }
        let expected = operand_set(extra);
        if begins_operand(self.kind_after(1)) && !self.is(TokenKind::End) {
            self.unexpected("extraneous", &expected);
            self.advance();
            return true;
        }
        self.unexpected("mismatched", &expected);
        false
    }

    fn member(&mut self) -> Result<Expr> {
        let mut expr = self.primary()?;
        loop {
            let token = self.peek();
            expr = match token.kind {
                TokenKind::Dot => self.select_or_call(expr)?,
                TokenKind::LeftBracket => self.index(expr)?,
                _ => return Ok(expr),
            };
        }
    }

    fn select_or_call(&mut self, operand: Expr) -> Result<Expr> {
        let dot = self.advance();
        let optional = self.take(TokenKind::Question).is_some();
        let name = self.peek();
        match name.kind {
            TokenKind::Identifier => {}
            TokenKind::QuotedIdentifier => {
                self.errors.report_at(name.offset, "unsupported syntax: '`'".into());
            }
            _ if optional => {
                self.unexpected("mismatched", "{IDENTIFIER, ESC_IDENTIFIER}");
                return Err(Stop);
            }
            _ => {
                let Stop = self.no_alternative(dot);
                return Ok(self.recover());
            }
        }
        self.advance();
        if !optional && name.kind == TokenKind::Identifier && self.is(TokenKind::LeftParen) {
            let paren = self.advance();
            let args = self.arguments()?;
            let depth = 1 + self.deepest(std::iter::once(&operand).chain(&args));
            let expr = macros::receiver_call(self, paren.offset, name.text, operand, args);
            self.set_depth(&expr, depth)?;
            return Ok(expr);
        }
        let depth = 1 + self.depth(&operand);
        let expr = if optional {
            let field = self.new_node(name.offset, Kind::Literal(Literal::String(Arc::from(name.text))));
            self.call(dot.offset, operator::OPTIONAL_SELECT, vec![operand, field])
        } else {
            let select = Select { operand: Box::new(operand), field: Arc::from(name.text), test_only: false };
            self.new_node(dot.offset, Kind::Select(select))
        };
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    fn index(&mut self, operand: Expr) -> Result<Expr> {
        let bracket = self.advance();
        let optional = self.take(TokenKind::Question).is_some();
        let index = self.expression(if optional { &[] } else { &["'?'"] })?;
        self.expect(TokenKind::RightBracket, "']'", |kind| kind == TokenKind::End)?;
        let depth = 1 + self.deepest([&operand, &index]);
        let function = if optional { operator::OPTIONAL_INDEX } else { operator::INDEX };
        let expr = self.call(bracket.offset, function, vec![operand, index]);
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    /// The arguments of a call, behind its opening parenthesis.
    fn arguments(&mut self) -> Result<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take(TokenKind::RightParen).is_some() {
            return Ok(args);
        }
        args.push(self.expression(&["')'"])?);
        while self.take(TokenKind::Comma).is_some() {
            args.push(self.expression(&[])?);
        }
        self.expect(TokenKind::RightParen, "')'", |kind| kind == TokenKind::End)?;
        Ok(args)
    }

    fn primary(&mut self) -> Result<Expr> {
        let token = self.peek();
        match token.kind {
            TokenKind::LeftParen => {
                self.advance();
                let expr = self.expression(&[])?;
                self.expect(TokenKind::RightParen, "')'", |kind| kind == TokenKind::End)?;
                Ok(expr)
            }
            TokenKind::LeftBracket => self.list(),
            TokenKind::LeftBrace => self.map(),
            TokenKind::Identifier | TokenKind::Dot => self.name(),
            _ => self.literal(),
        }
    }

    fn name(&mut self) -> Result<Expr> {
        let first = self.peek();
        let leading_dot = self.take(TokenKind::Dot).is_some();
        let name = self.peek();
        if name.kind != TokenKind::Identifier {
            return Err(self.no_alternative(first));
        }
        if let Some(parts) = self.message_name() {
            return self.message(leading_dot, parts);
        }
        self.advance();
        let full = if leading_dot { format!(".{}", name.text) } else { name.text.to_owned() };
        let args = match self.take(TokenKind::LeftParen) {
            Some(paren) => Some((paren, self.arguments()?)),
            None => None,
        };
        if is_reserved(name.text) {
            self.errors.report_at(first.offset, format!("reserved identifier: {}", name.text));
            return Ok(self.new_node(first.offset, Kind::Unspecified));
        }
        let Some((paren, args)) = args else {
            return Ok(self.new_node(name.offset, Kind::Ident(full.into())));
        };
        let depth = self.deepest(&args);
        let expr = macros::global_call(self, paren.offset, &full, args);
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    /// The number of tokens in the name of a message, if a message begins here: `a.b.C{`.
    fn message_name(&self) -> Option<usize> {
        let mut length = 1;
        loop {
            match self.kind_after(length) {
                TokenKind::LeftBrace => return Some(length),
                TokenKind::Dot if self.kind_after(length + 1) == TokenKind::Identifier => length += 2,
                _ => return None,
            }
        }
    }

    fn message(&mut self, leading_dot: bool, name_tokens: usize) -> Result<Expr> {
        let mut name = String::from(if leading_dot { "." } else { "" });
        for _ in 0..name_tokens {
            name.push_str(self.advance().text);
        }
        let brace = self.advance();
        let mut fields = Vec::new();
        while !self.at_end_of_entries(!fields.is_empty()) {
            const EXPECTED: &str = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}";
            let is_extraneous = !matches!(
                self.peek().kind,
                TokenKind::Question | TokenKind::Identifier | TokenKind::QuotedIdentifier | TokenKind::End
            ) && matches!(
                self.kind_after(1),
                TokenKind::Identifier | TokenKind::Question
            );
            if is_extraneous {
                self.unexpected("extraneous", EXPECTED);
                self.advance();
            }
            let optional = self.take(TokenKind::Question).is_some();
            let field = self.peek();
            match field.kind {
                TokenKind::Identifier => {}
                TokenKind::QuotedIdentifier => {
                    self.errors.report_at(brace.offset + 1, "unsupported syntax: '`'".into());
                }
                _ => {
                    self.unexpected("mismatched", EXPECTED);
                    return Err(Stop);
                }
            }
            self.advance();
            let colon = self.expect(TokenKind::Colon, "':'", begins_operand)?;
            let id = self.new_id(colon.offset);
            let value = self.expression(&[])?;
            fields.push(StructField { id, name: Arc::from(field.text), value, optional });
            if !self.between_entries("{'}', ','}", TokenKind::RightBrace)? {
                break;
            }
        }
        self.expect(TokenKind::RightBrace, "'}'", |kind| kind == TokenKind::End)?;
        let depth = self.deepest(fields.iter().map(|field| &field.value));
        let expr = self.new_node(brace.offset, Kind::Struct(StructLiteral { name: name.into(), fields }));
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    /// Whether a list of entries ends here, perhaps behind one comma that nothing follows.
    fn at_end_of_entries(&mut self, some: bool) -> bool {
        if !some {
            self.take(TokenKind::Comma);
        }
        matches!(self.peek().kind, TokenKind::RightBracket | TokenKind::RightBrace)
    }

    /// Passes the comma between two entries. False: the last entry was read.
    fn between_entries(&mut self, expected: &str, end: TokenKind) -> Result<bool> {
        let next = self.peek().kind;
        if next == end {
            return Ok(false);
        }
        if next == TokenKind::Comma {
            self.advance();
            // Nothing but the end can follow a second comma.
            return Ok(!matches!(self.peek().kind, TokenKind::Comma | TokenKind::End));
        }
        if self.kind_after(1) == end && next != TokenKind::End {
            self.unexpected("extraneous", expected);
            self.advance();
            return Ok(false);
        }
        self.unexpected("mismatched", expected);
        Err(Stop)
    }

    fn list(&mut self) -> Result<Expr> {
        let bracket = self.advance();
        let mut list = ListLiteral::default();
        while !self.at_end_of_entries(!list.elements.is_empty()) {
            let optional = self.take(TokenKind::Question).is_some();
            let extra: &[&str] =
                if optional || !list.elements.is_empty() { &[] } else { &["']'", "','", "'?'"] };
            list.elements.push(self.expression(extra)?);
            list.optional.push(optional);
            if !self.between_entries("{']', ','}", TokenKind::RightBracket)? {
                break;
            }
        }
        self.expect(TokenKind::RightBracket, "']'", |kind| kind == TokenKind::End)?;
        let depth = self.deepest(&list.elements);
        let expr = self.new_node(bracket.offset, Kind::List(list));
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    fn map(&mut self) -> Result<Expr> {
        let brace = self.advance();
        let mut entries = Vec::new();
        while !self.at_end_of_entries(!entries.is_empty()) {
            let optional = self.take(TokenKind::Question).is_some();
            let extra: &[&str] = if optional || !entries.is_empty() { &[] } else { &["'}'", "','", "'?'"] };
            let key = self.expression(extra)?;
            self.expect(TokenKind::Colon, "':'", begins_operand)?;
            let value = self.expression(&[])?;
            entries.push(MapEntry { key, value, optional });
            if !self.between_entries("{'}', ','}", TokenKind::RightBrace)? {
                break;
            }
        }
        self.expect(TokenKind::RightBrace, "'}'", |kind| kind == TokenKind::End)?;
        let depth = self.deepest(entries.iter().flat_map(|entry| [&entry.key, &entry.value]));
        let expr = self.new_node(brace.offset, Kind::Map(entries));
        self.set_depth(&expr, depth)?;
        Ok(expr)
    }

    fn literal(&mut self) -> Result<Expr> {
        let first = self.advance();
        let negative = first.kind == TokenKind::Minus;
        if negative && !matches!(self.peek().kind, TokenKind::Int | TokenKind::Float) {
            return Err(self.no_alternative(first));
        }
        let token = if negative { self.advance() } else { first };
        let sign = if negative { "-" } else { "" };
        let literal = match token.kind {
            TokenKind::True => Ok(Literal::Bool(true)),
            TokenKind::False => Ok(Literal::Bool(false)),
            TokenKind::Null => Ok(Literal::Null),
            TokenKind::Int => int(sign, token.text).map(Literal::Int).ok_or("invalid int literal"),
            TokenKind::Uint => uint(token.text).map(Literal::Uint).ok_or("invalid uint literal"),
            TokenKind::Float => {
                let value = format!("{sign}{}", token.text).parse::<f64>().ok();
                value.filter(|value| value.is_finite()).map(Literal::Double).ok_or("invalid double literal")
            }
            TokenKind::String => literal::string(token.text).map(|text| Literal::String(text.into())),
            TokenKind::Bytes => literal::bytes(token.text).map(|bytes| Literal::Bytes(bytes.into())),
            _ => return Err(self.no_alternative(first)),
        };
        let kind = match literal {
            Ok(literal) => Kind::Literal(literal),
            Err(message) => {
                self.errors.report_at(first.offset, message.into());
                Kind::Unspecified
            }
        };
        Ok(self.new_node(first.offset, kind))
    }
}

fn int(sign: &str, digits: &str) -> Option<i64> {
    let (digits, base) = digits.strip_prefix("0x").map_or((digits, 10), |hex| (hex, 16));
    i64::from_str_radix(&format!("{sign}{digits}"), base).ok()
}

fn uint(token: &str) -> Option<u64> {
    let digits = &token[..token.len() - 1];
    let (digits, base) = digits.strip_prefix("0x").map_or((digits, 10), |hex| (hex, 16));
    u64::from_str_radix(digits, base).ok()
}

/// The precedence of `+` and `-`; relations have a lower one, products a higher.
const SUM_PRECEDENCE: u8 = 1;

/// Precedence and function of an operator between two operands.
fn binary_operator(kind: TokenKind) -> Option<(u8, &'static str)> {
    Some(match kind {
        TokenKind::Less => (0, operator::LESS),
        TokenKind::LessEquals => (0, operator::LESS_EQUALS),
        TokenKind::Greater => (0, operator::GREATER),
        TokenKind::GreaterEquals => (0, operator::GREATER_EQUALS),
        TokenKind::Equals => (0, operator::EQUALS),
        TokenKind::NotEquals => (0, operator::NOT_EQUALS),
        TokenKind::In => (0, operator::IN),
        TokenKind::Plus => (SUM_PRECEDENCE, operator::ADD),
        TokenKind::Minus => (SUM_PRECEDENCE, operator::SUBTRACT),
        TokenKind::Star => (2, operator::MULTIPLY),
        TokenKind::Slash => (2, operator::DIVIDE),
        TokenKind::Percent => (2, operator::MODULO),
        _ => return None,
    })
}

fn begins_member(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::LeftBracket
            | TokenKind::LeftBrace
            | TokenKind::LeftParen
            | TokenKind::Dot
            | TokenKind::True
            | TokenKind::False
            | TokenKind::Null
            | TokenKind::Float
            | TokenKind::Int
            | TokenKind::Uint
            | TokenKind::String
            | TokenKind::Bytes
            | TokenKind::Identifier
    )
}

fn begins_operand(kind: TokenKind) -> bool {
    begins_member(kind) || matches!(kind, TokenKind::Minus | TokenKind::Exclamation)
}

fn follows_operand(kind: TokenKind) -> bool {
    binary_operator(kind).is_some()
        || matches!(
            kind,
            TokenKind::And
                | TokenKind::Or
                | TokenKind::Question
                | TokenKind::Colon
                | TokenKind::Comma
                | TokenKind::RightParen
                | TokenKind::RightBracket
                | TokenKind::RightBrace
                | TokenKind::End
        )
}

/// The tokens that may stand in place of a missing operand, `extra` included, in the order of the grammar.
fn operand_set(extra: &[&str]) -> String {
    const PUNCTUATION: [&str; 11] =
        ["'['", "']'", "'{'", "'}'", "'('", "')'", "'.'", "','", "'-'", "'!'", "'?'"];
    const BEGIN_OPERANDS: [&str; 6] = ["'['", "'{'", "'('", "'.'", "'-'", "'!'"];
    const LITERALS: [&str; 9] =
        ["'true'", "'false'", "'null'", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER"];
    let expected = PUNCTUATION.iter().filter(|token| BEGIN_OPERANDS.contains(token) || extra.contains(token));
    let tokens: Vec<&str> = expected.chain(&LITERALS).copied().collect();
    format!("{{{}}}", tokens.join(", "))
}
