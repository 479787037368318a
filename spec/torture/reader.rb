# frozen_string_literal: true

require_relative "history"
require_relative "journal"
require_relative "lane"

module Torture
  # Builds a history from the journals of the lanes and the driver's chronicle.
  class Reader
    # After this time, an undisturbed waiter is certainly queued.
    QUEUED_BY = SECOND / 2

    NOTE = 4_000 # characters of a note that are shown

    def initialize(folder, chronicle)
      @folder = folder
      @chronicle = chronicle
      @calls = []
      @delays = Delays.new
      @findings = chronicle.findings.dup
      @counts = chronicle.counts.dup
    end

    def history
      Dir[File.join(@folder, "*.*.0")].each { |path| read_lane(path) }
      read_notes
      @calls.each { |call| look_up(call) }
      @chronicle.lives.each_value { |life| look_into(life) if life.hung }
      History.new(
        calls: @calls, chronicle: @chronicle, delays: @delays, findings: @findings, counts: @counts
      )
    end

    private

    def look_up(call)
      label = "t#{call.life}x#{call.lane}x#{call.number}"
      call.waited = @chronicle.waited[label]
      return unless call.way.at_once == 1 # a label does not tell which of several keys was seen

      call.held, call.seen = @chronicle.held[label], @chronicle.queued[label]
      call.queued = queued(call, call.seen)
    end

    def queued(call, seen)
      patient = call.asked + QUEUED_BY
      patient += @delays.of(call.life, call.asked, patient)
      patient = nil if (call.entered || call.ended || 0) <= patient
      [seen, patient].compact.min
    end

    def read_lane(first)
      life, lane, = File.basename(first).split(".")
      calls = {}
      pages = Dir["#{first.delete_suffix(".0")}.*"].sort_by { |path| path[/\d+\z/].to_i }
      pages.each do |page|
        Journal.read(page) do |kind, at, numbers|
          calls = read(life, lane, calls, kind, at, numbers)
        end
      end
    end

    # calls: those of the lane's latest request, by key.
    def read(life, lane, calls, kind, at, numbers)
      case kind
      when :ask then return new_calls(life, lane, at, numbers)
      when :enter then enter(calls.fetch(numbers[3]), at, *numbers[1, 2])
      when :check then check(calls.fetch(numbers[4]), at, *numbers[1, 3])
      when :downgrade then calls.fetch(numbers[1]).downgraded = at
      when :leave
        calls.fetch(numbers[2]).then { |call| call.left, call.valid_until = at, numbers[1] }
      when :end then calls.each_value { |call| finish(call, at, Lane::OUTCOMES.fetch(numbers[1])) }
      when :unreleased then calls.each_value { |call| call.unreleased ||= at }
      when :unextended then calls.fetch(numbers[1]).unextended ||= at
      when :lost then of_key(calls, numbers[3]).each { |call| lost(call, *numbers[1, 2]) }
      when :handed then calls.fetch(numbers[1]).handed = true
      when :watched then calls.each_value { |call| call.watched = true }
      when :adopts then calls.each_value { |call| call.adopts = numbers[1] }
      when :inherited
        text = "the lease of its parent counts as valid in child #{life}"
        find(:inherited, text) unless numbers[1].zero?
      when :gap then @delays.add(life, *numbers[0, 3])
      when :inventory then take_stock(life, *numbers[0, 2])
      when :compact then @counts[:compact] += 1
      when :child then fork_ended(calls.values.first, numbers[1])
      end
      calls
    end

    def new_calls(life, lane, at, numbers)
      number, key, wait, ttl, interrupt, way = numbers
      WAYS.fetch(way).keys_from(key).to_h do |one|
        @calls << Call.new(
          life: life, lane: lane, number: number, way: WAYS.fetch(way), key: one, asked: at,
          wait: wait, ttl: ttl, interrupt: interrupt.zero? ? nil : interrupt
        )
        [one, @calls.last]
      end
    end

    def enter(call, at, fence, valid_until)
      call.entered, call.fence, call.at_first, call.valid_until =
        at,
        fence,
        valid_until,
        valid_until
    end

    # Between `before` and `at`, the lease was asked whether it is valid. Its answer must be
    # correct.
    def check(call, at, valid_until, valid, before)
      @counts[:checks] += 1
      if valid == 1 && before > [valid_until, call.valid_until].max
        find(:validity, "#{call}: valid after its end", call)
      end
      lost(call, at, [valid_until, call.valid_until].min) if valid.zero?
      call.valid_until = valid_until
    end

    # place: the key plus one, or zero if the key is unknown.
    def of_key(calls, place) = place.zero? ? calls.values : [calls.fetch(place - 1)]

    # valid_until: zero if it is unknown.
    def lost(call, at, valid_until)
      (call.lost ||= []) << [at, valid_until.zero? ? call.valid_until : valid_until]
    end

    def finish(call, at, outcome)
      call.ended = at
      call.outcome = outcome
      if outcome == :unexpected
        find(:error, "#{call} ended in an error that nothing here explains", call)
      end
      if outcome == :done && !call.entered
        find(:silent, "#{call} came back as if the block had run", call)
      end
    end

    def fork_ended(call, success)
      @counts[:forks] += 1
      find(:crash, "a child forked in #{call} failed", call) if success.zero?
    end

    def take_stock(life, descriptors, threads)
      @counts[:inventories] += 1
      if descriptors + threads > 0
        find(:leak, "worker #{life}: #{descriptors} descriptors, #{threads} threads")
      end
    end

    def look_into(life)
      calls = @calls.select { |call| call.life == life.name && call.ended.nil? }
      find(
        :hang, "worker #{life.name} does not end; #{calls.size} calls have not come back", *calls
      )
    end

    def read_notes
      Dir[File.join(@folder, "*.note")].each do |path|
        find(:note, "worker #{File.basename(path, ".note")}: #{File.read(path)[0, NOTE]}")
      end
      troubled = @findings.select { |finding| finding.kind == :error }.flat_map(&:calls).map(&:life)
      troubled.uniq.each { |life| read_errors(life) }
    end

    # Reads what the worker wrote to its standard error. That tells why a lane ended, if the lane
    # could not note the reason itself.
    def read_errors(life)
      path = File.join(@folder, "#{life}.stderr")
      said = File.exist?(path) ? File.readlines(path).grep_v(/\A\[Plock\]/) : []
      find(:note, "worker #{life} wrote: #{said.join[0, NOTE]}") if said.any?
    end

    def find(kind, text, *calls) = @findings << Finding.new(kind, text, calls)
  end
end
