# frozen_string_literal: true

module LocalModel
  # The rules. Each has a name by which it can be switched off.
  RULES = {
    ring_first: "a process that changes something for another one rings its bell first",
    heed_section: "a rung process looks when the section is free again, not before",
    repair: "a process that finds a dead one in the section takes its place there",
    watch_holders: "the first in line watches each holder's process",
    watch_before: "and each later waiter watches the one before it",
    look_at_once: "a process that begins to watch a dead one looks at once",
    check_place: "no process enters a file that is not in its place any more",
    attend_place:
      "each waiter and holder notices within half a second that its file is gone",
    wait_anew: "a waiter in such a file asks again in the one that is there",
    hand_over: "a process has a second to take a lock that is handed over to it",
    pass_over: "a waiter whose process has been stopped for a second is passed over"
  }.freeze

  # The participants and the faults. rounds: how many times each process takes the lock. breaks:
  # how many extra processes break the lock. stops: how many times a waiter is stopped; it may
  # continue at any time.
  Scenario = Struct.new(:title, :processes, :rounds, :deaths, :moves, :quitters, :breaks, :stops,
                        keyword_init: true) do
    def initialize(title:, processes: 3, rounds: 1, deaths: 0, moves: 0, quitters: 0, breaks: 0,
                   stops: 0) = super
  end

  # A claim. serial: its number in the order of arrival. state: :waiting, :handed, :held, or :over
  # if the process did not take a handed-over lock within a second.
  Claim = Struct.new(:process, :state, :serial)

  # A file. inside: the process in the critical section, dead or alive; nil: no process.
  Store = Struct.new(:claims, :inside)

  # A process.
  #   phase    :idle, :entering, :inside, :waiting, :holding, :gone or :dead
  #   aim      the reason to enter the section: :ask, :look, :release, :quit or :break
  #   plan     its remaining steps in the section
  #   after    its remaining steps after the section
  #   file     the number of its mapped file; nil: none
  #   rung     its bell has been rung.
  #   awake    it must look at the file.
  #   watches  the processes whose death it notices
  #   checked  it has checked in this half second that its file is still in its place.
  #   rounds   how many more times it will ask for the lock
  #   breaker  it breaks the lock instead of asking for it.
  #   stopped  nil: it runs; :lately: it was stopped less than a second ago; :silent: earlier
  Process = Struct.new(:phase, :aim, :plan, :after, :file, :rung, :awake, :watches, :checked,
                       :rounds, :breaker, :stopped)

  # One state of the whole system. `steps` names the possible next steps. Each step is made on a
  # copy of the state.
  class World
    attr_reader :violation
    attr_accessor :story

    def initialize(scenario, rules)
      @scenario = scenario
      @rules = rules
      @files = [Store.new([], nil)]
      @place = 0 # the number of the file at the path; nil: none
      count = scenario.processes + scenario.breaks
      @processes =
        Array.new(count) do |n|
          Process.new(
            :idle, nil, [], [], nil, false, false, [], false, scenario.rounds,
            n >= scenario.processes
          )
        end
      @moved = false # was the file moved in this half second?
      @deaths = scenario.deaths
      @moves = scenario.moves
      @quitters = scenario.quitters
      @stops = scenario.stops
      @seconds = 0 # for how many seconds others have waited for a stopped process
      @serial = 0
    end

    def initialize_copy(_)
      @files = @files.map { |file| Store.new(file.claims.map(&:dup), file.inside) }
      @processes =
        @processes.map do |process|
          process.dup.tap do |copy|
            %i[plan after watches].each { |part| copy[part] = process[part].dup }
          end
        end
    end

    def key
      Marshal.dump([@files, @place, @moved, @processes, @deaths, @moves, @quitters, @stops,
                    @seconds])
    end

    def steps
      urgent = urgent_steps
      check_quiet if urgent.empty?
      urgent + leisurely_steps(urgent.empty?)
    end

    def step(step)
      copy = dup
      copy.public_send(*step)
      copy.check
      copy
    end

    # --- what a process does by itself ---

    def enter(n)
      process = @processes[n]
      look_at_place(process) or return
      process.file ||= @place || make_file
      file = @files[process.file]
      return if file.inside && alive?(file.inside) # another process is in the section of this file
      dead = file.inside
      tell do
        found = ", in which #{name(dead)} has died" if dead
        "#{name(n)} enters the section#{found}, to #{process.aim}"
      end
      file.inside = n
      process.phase = :inside
      process.plan = plan(n, file)
    end

    def change(n)
      process = @processes[n]
      file = @files[process.file]
      kind, other = process.plan.shift
      case kind
      when :ring then ring(n, other)
      when :claim then claim(n, file, other)
      when :grant then grant(n, file, other)
      when :take then take(n)
      when :end
        tell { "#{name(n)} ends the claim of #{name(other)}" }
        file.claims.reject! { |claim| claim.process == other }
        lose(other) if @processes[other].phase == :holding # the lock was broken
      end
      leave(n, file) if process.plan.empty?
    end

    # Rings a bell after the process has left the section, as a release does.
    def call(n)
      ring(n, @processes[n].after.shift)
    end

    # A process looks at the file, because its bell was rung or because another event woke it.
    def wake(n)
      process = @processes[n]
      heeded = @rules[:heed_section] || !process.rung
      process.rung = process.awake = false
      if heeded
        enter_for(process, :look)
      elsif claim_of(n)&.state == :held
        hold(n)
      else
        tell { "#{name(n)} looks, while another process is in the section, and sees nothing new" }
      end
    end

    # --- events that take time ---

    def start(n)
      tell { "#{name(n)} asks" }
      enter_for(@processes[n], @processes[n].breaker ? :break : :ask)
    end

    def finish(n)
      tell { "#{name(n)} ends its block" }
      enter_for(@processes[n], :release)
    end

    def quit(n)
      @quitters -= 1
      tell { "#{name(n)} loses patience" }
      enter_for(@processes[n], :quit)
    end

    def die(n)
      @deaths -= 1
      tell { "--- #{name(n)} dies" }
      @processes[n].phase = :dead
      @processes[n].plan.clear
      @processes[n].after.clear
      @processes.each do |other|
        other.awake = true if other.phase != :dead && other.watches.include?(n)
      end
    end

    def stop(n)
      @stops -= 1
      @seconds = 0
      tell { "--- #{name(n)} is stopped" }
      @processes[n].stopped = :lately
    end

    # The process continues. Its worker thread looks at once.
    def go_on(n)
      tell { "--- #{name(n)} goes on" }
      @processes[n].stopped = nil
      @processes[n].awake = true
    end

    # A second passes. If a process has not taken a lock that was handed over to it, the claim of
    # that process is over. All waiters look at the file.
    def second(_)
      tell { "--- a second passes" }
      claims = @files.flat_map(&:claims)
      claims.each { |claim| claim.state = :over if claim.state == :handed }
      @processes.each do |process|
        process.stopped &&= :silent
        process.awake = true if process.phase == :waiting && !process.stopped
      end
      @seconds += 1
      violate(:kept_back, "#{name(waiting.first)} waits for another second") if @seconds > 1
    end

    def move(_)
      @moves -= 1
      tell { "--- the file is renamed" }
      @place = nil
      @moved = true
    end

    # Half a second passes. Before it is over, every waiter and holder has checked that its file is
    # still in its place.
    def tick(_)
      tell { "--- half a second passes" }
      @moved = false
      @processes.each_with_index do |process, n|
        process.checked = false
        unless @rules[:attend_place] && %i[waiting holding].include?(process.phase) &&
               process.file != @place
          next
        end

        process.phase == :holding ? lose(n) : process.awake = true
      end
      left = @processes.index { |process| process.phase == :holding && process.file != @place }
      violate(:split, "#{name(left)} still holds in a file that is not there any more") if left
    end

    # --- the properties ---

    def check
      holders = @processes.each_index.select { |n| @processes[n].phase == :holding }
      holders.group_by { |n| @processes[n].file }.each_value do |together|
        if together.size > 1
          violate(:exclusion, "#{together.map { |n| name(n) }.join(" and ")} both hold the lock")
        end
      end
    end

    private

    def name(n) = @processes[n].breaker ? "the one who breaks it" : ("A".ord + n).chr

    def tell = (@story << yield if @story)

    def violate(property, text)
      tell { "VIOLATED (#{property}): #{text}" }
      @violation ||= [property, text]
    end

    def alive?(n) = @processes[n].phase != :dead

    # Does the process run, or has it been stopped only briefly?
    def living?(n) = alive?(n) && !(@rules[:pass_over] && @processes[n].stopped == :silent)

    # Does the process still count as a waiter? It does not if it has been stopped for a second. A
    # dead process still counts, because its death is noticed later.
    def heard?(n) = living?(n) || !alive?(n)

    # Does a process wait although no process holds the lock, while another process is stopped?
    def kept_back?
      waiting.any? && @processes.any? { |process| stopped?(process) } &&
        @processes.none? { |process| process.phase == :holding }
    end

    def stopped?(process) = process.stopped && process.phase != :dead

    def waiting
      @processes.each_index.select do |n|
        @processes[n].phase == :waiting && !@processes[n].stopped
      end
    end

    def claim_of(n) =
      @processes[n].file && @files[@processes[n].file].claims.find { |claim| claim.process == n }

    def urgent_steps
      @processes.each_index.filter_map do |n|
        process = @processes[n]
        next if process.stopped

        if process.after.any? && process.phase != :dead then [:call, n]
        elsif process.phase == :entering && free?(process) then [:enter, n]
        elsif process.phase == :inside then [:change, n]
        elsif process.phase == :waiting && (process.awake || process.rung) then [:wake, n]
        end
      end
    end

    def leisurely_steps(quiet)
      steps = []
      @processes.each_with_index do |process, n|
        steps << [:die, n] if stopped?(process) && @deaths.positive?
        steps << [:go_on, n] if stopped?(process) && @files.none?(&:inside)
        next if process.stopped

        looks = process.phase == :entering && process.aim == :look
        steps << [:stop, n] if @stops.positive? && (process.phase == :waiting || looks)
        steps << [:start, n] if process.phase == :idle
        steps << [:finish, n] if process.phase == :holding
        steps << [:quit, n] if process.phase == :waiting && @quitters.positive?
        steps << [:die, n] if @deaths.positive? && !%i[idle gone dead].include?(process.phase)
      end
      steps << [:move, nil] if @moves.positive? && @place
      steps << [:second, nil] if quiet && kept_back?
      if quiet && @scenario.moves.positive? &&
         @processes.any? { |process| process.checked || (process.file && process.file != @place) }
        steps << [:tick, nil]
      end
      steps
    end

    # May the process enter the section of its file? It may also enter if that file is no longer in
    # its place, because the process notices this when it enters.
    def free?(process)
      file = process.file || @place
      return true if file.nil? || (@rules[:check_place] && !process.checked && file != @place)

      inside = @files[file].inside
      inside.nil? || (!alive?(inside) && @rules[:repair])
    end

    def enter_for(process, aim)
      process.phase = :entering
      process.aim = aim
    end

    # Checks, if that is due, that the file is still in its place. Returns false if the process must
    # not enter the section now.
    def look_at_place(process)
      looks = @rules[:check_place] && !process.checked && !process.file.nil?
      process.checked = true
      return true if !looks || process.file == @place

      n = @processes.index(process)
      tell { "#{name(n)} sees that its file is not there any more" }
      process.file = nil
      case process.aim
      when :ask then return true
      when :look then @rules[:wait_anew] ? enter_for(process, :ask) : process.phase = :waiting
      else over(process)
      end
      false
    end

    def make_file
      tell { "a new file is made" }
      @files << Store.new([], nil)
      @place = @files.size - 1
    end

    def lose(n)
      tell { "#{name(n)} is told that its lease is lost" }
      over(@processes[n])
    end

    def over(process)
      process.rounds -= 1
      process.phase = process.rounds.positive? && !process.breaker ? :idle : :gone
      process.watches.clear
      process.rung = process.awake = false
    end

    # --- in the section, step by step ---

    def plan(n, file)
      case @processes[n].aim
      when :ask then tidy(file, n) + [[:claim, nil]]
      when :look then look(n, file)
      when :release then release(n, file)
      when :quit then quit_line(n, file)
      when :break then break_lock(file)
      end << [:leave, nil]
    end

    # The processes that hold the lock, or to which it has been handed over.
    def held(file) = file.claims.reject { |claim| claim.state == :waiting }.map(&:process)

    # The processes whose claims on the lock are over, or that have died.
    def ended(file)
      over = file.claims.select { |claim| claim.state == :over }.map(&:process)
      held(file).select { |holder| over.include?(holder) || !alive?(holder) }
    end

    def line(file) =
      file.claims.select { |claim| claim.state == :waiting }.sort_by(&:serial).map(&:process)

    # Removes dead holders. If no holder is left, the first waiter is admitted.
    def tidy(file, own)
      dead = ended(file)
      steps = dead.map { |holder| [:end, holder] }
      steps += let_in(next_in(file), own) if (held(file) - dead).empty?
      steps
    end

    def let_in(first, own)
      return [] unless first
      return [[:grant, first]] if first == own

      @rules[:ring_first] ? [[:ring, first], [:grant, first]] : [[:grant, first], [:ring, first]]
    end

    def look(n, file)
      return [[:take, nil]] if %i[handed over].include?(claim_of(n)&.state)
      return [] unless line(file).include?(n)

      before = line(file).take_while { |other| other != n }
      passed = before.reverse.take_while { |other| !living?(other) }
      steps = passed.reject { |other| alive?(other) }.map { |other| [:end, other] }
      return steps if before.size > passed.size

      dead = ended(file)
      steps += dead.map { |holder| [:end, holder] }
      (held(file) - dead).empty? ? steps << [:grant, n] : steps
    end

    # If this process is the only holder, it hands the lock to the first waiter. It rings that
    # waiter's bell only after it has left the section. If it dies before that, the waiter notices,
    # because it watches this process.
    def release(n, file)
      return [] unless held(file).include?(n)

      first = next_in(file)
      @processes[n].after << first if first && held(file) == [n]
      [[:end, n], *([[:grant, first]] if first && held(file) == [n])]
    end

    def quit_line(n, file)
      return [[:take, nil]] if %i[handed over].include?(claim_of(n)&.state)
      return [] unless line(file).include?(n)

      behind = line(file).drop_while { |other| other != n }[1]
      told = behind ? [[:ring, behind]] : []
      freed = held(file).empty? ? let_in(next_in(file, n), n) : []
      (@rules[:ring_first] ? [*told, [:end, n]] : [[:end, n], *told]) + freed
    end

    def break_lock(file)
      first = next_in(file)
      told = first && held(file).any? ? [[:ring, first]] : []
      ends = held(file).map { |holder| [:end, holder] }
      @rules[:ring_first] ? told + ends + grants(first, ends) : ends + grants(first, ends) + told
    end

    # The next waiter to admit. If it has died, the waiter behind it notices that.
    def next_in(file, leaving = nil)
      line(file).find { |waiter| waiter != leaving && heard?(waiter) }
    end

    def grants(first, ends) = first && ends.any? ? [[:grant, first]] : []

    # --- the steps ---

    def ring(n, other)
      tell { "#{name(n)} rings #{name(other)}" }
      @processes[other].rung = true if alive?(other)
    end

    def claim(n, file, _)
      @serial += 1
      free = held(file).empty?
      tell { "#{name(n)} #{free ? "has the lock" : "stands in line"}" }
      earlier = line(file).find { |waiter| living?(waiter) }
      violate(:order, "#{name(n)} goes before #{name(earlier)}") if free && earlier
      file.claims << Claim.new(n, free ? :held : :waiting, @serial)
    end

    def grant(n, file, other)
      claim = file.claims.find { |candidate| candidate.process == other }
      tell { "the lock is given to #{name(other)}" }
      before = line(file).take_while { |waiter| waiter != other }
      earlier = before.find { |waiter| living?(waiter) }
      violate(:order, "#{name(other)} goes before #{name(earlier)}") if earlier
      claim.state = n == other || !@rules[:hand_over] ? :held : :handed
    end

    def take(n)
      tell { "#{name(n)} takes it" }
      claim_of(n).state = :held
    end

    def leave(n, file)
      process = @processes[n]
      file.inside = nil
      case process.aim
      when :release, :break then over(process)
      when :quit then claim_of(n) ? hold(n) : over(process)
      else settle(n, file)
      end
    end

    # After the section, the process either holds the lock or waits. A waiter watches the waiter
    # before it. The first waiter watches the holders.
    def settle(n, file)
      process = @processes[n]
      state = claim_of(n)&.state
      return enter_for(process, :ask) unless state # its claim is over, or was broken
      return hold(n) if state == :held

      process.phase = :waiting
      before = line(file).take_while { |other| other != n }.reverse.find { |other| heard?(other) }
      process.watches =
        before ? heeded([before], :watch_before) : heeded(held(file), :watch_holders)
      process.awake = true if @rules[:look_at_once] &&
                              process.watches.any? { |other| !alive?(other) }
    end

    def heeded(others, rule) = @rules[rule] ? others : []

    def hold(n)
      violate(:order, "#{name(n)} has the lock without a claim") unless claim_of(n)&.state == :held
      tell { "#{name(n)} holds the lock" }
      if @processes[n].file != @place && !@moved
        violate(:split, "its file is not there any more, and was not before this half second")
      end
      @processes[n].phase = :holding
      @processes[n].watches.clear
    end

    # Runs when only time can pass, or a process can begin or end a block.
    def check_quiet
      @seconds = 0 unless kept_back?
      return if waiting.empty?

      stuck = @processes.each_index.find do |n|
        @processes[n].phase == :entering && !@processes[n].stopped
      end
      violate(:stuck, "#{name(stuck)} cannot enter the section") if stuck
      waiting.group_by { |n| @processes[n].file }.each do |file, waiters|
        next if file != @place # these waiters notice within half a second that their file is gone
        if @processes.each_index.any? { |n|
             @processes[n].phase == :holding && @processes[n].file == file
           }
          next
        end
        # a stopped process may keep waiters back for a moment
        next if @processes.any? { |other| stopped?(other) && other.file == file }

        names = waiters.map { |n| name(n) }.join(" and ")
        violate(:swallowed, "no process holds the lock, and #{names} wait")
      end
    end
  end
end
