# frozen_string_literal: true

require_relative "words"

module Plock
  module CLI
    module Top
      # The contents of the screen, and how keystrokes change them. The board does not access the
      # terminal.
      class Board
        ORDERS = { "waiting" => "waiters", "since" => "time held", "left" => "time left",
                   "label" => "label", "host" => "holder" }.freeze
        WAITING = 4
        TIMES = 6
        KIND = 10
        GAP = "  "
        MARGIN = 4 # lines around the rows: title, state, heading, keys
        NAME = "plock top".size
        QUESTION = 8   # the fewest lines for a question; two of them show holders
        LEGIBLE = 40   # the fewest columns for a question
        SMALL = "The window is too small for the question. Nothing was done."
        CUT = "There are more keys than this view lists. The name of a key finds it"
        private_constant :NAME, :QUESTION, :LEGIBLE, :SMALL, :CUT, :ORDERS, :WAITING, :TIMES, :KIND,
                         :GAP, :MARGIN

        # @return [String] the `query` of {Survey::Listing}; empty to show all locks
        attr_reader :filter

        # @param title [String] the store and its namespace
        def initialize(title, read_only: false)
          @title = title
          @read_only = read_only
          @words = Words.new
          @mode = :list
          @filter = +""
          @order = ORDERS.keys.first
          @reverse = false
          @named = @rows = []
          @top = 0
          @height = 1
          @small = false
        end

        # @param named [Array<Status>] the statuses of the key whose name is the filter
        def update(snapshot, named)
          @snapshot = snapshot
          @named = named
          @error = nil
          arrange
        end

        # @param asked [Array<Status>] statuses that {#shown} returned
        # @param found [Array<Status>] the new statuses of these locks; free locks are left out
        def refresh(asked, found)
          asked = asked.to_h { |status| [status.store_key, nil] }
          found = asked.merge(found.to_h { |status| [status.store_key, status] })
          @rows = @rows.filter_map { |status| found.fetch(status.store_key, status) }
          follow(found) if @mode == :detail
          scroll
        end

        # @param error [Error] why there are no new statuses
        def fail(error) = @error = error

        # @param text [String] shown until the next key is pressed
        def note(text) = @note = text

        # @return [Array<Status>] the statuses on the screen
        def shown = list? ? @rows[@top, @height] || [] : [@subject].compact

        # @return [Boolean] is the board waiting for the answer to a question?
        def asks? = @mode == :confirm

        # @param key [Symbol, String]
        # @return [Symbol, Array, nil] what the session must do: `:quit`; `:look` to ask the store
        #   again; or `[:break, status]` to break that lock
        def press(key)
          @note = nil
          __send__("press_in_#{@mode}", key)
        end

        # @return [Array<Array(String, Symbol)>] lines and their styles
        def lines(width, height)
          @height = [height - MARGIN, 1].max
          @small = @height + 1 < QUESTION || width < LEGIBLE
          if asks? && @small # a user who cannot read the question must not answer it
            @mode = :list
            note(SMALL)
          end
          body = list? ? list(width) : subject
          body = body.first(@height + 1)
          body.fill(["", :plain], body.size...(@height + 1))
          [[title(width), :title], state, *body, [help, :plain]]
        end

        private

        # Does the screen show the list, and not a single lock?
        def list? = %i[list filter].include?(@mode)

        # --- keys ---

        def press_in_list(key)
          case key
          when :down, "j" then move(1)
          when :up, "k" then move(-1)
          when :page_down, " " then move(@height)
          when :page_up then move(-@height)
          when :first, "g" then move(-@rows.size)
          when :last, "G" then move(@rows.size)
          when "s" then sort(ORDERS.keys[(ORDERS.keys.index(@order) + 1) % ORDERS.size])
          when "r" then sort(@order, reverse: !@reverse)
          when "/"
            filter_by("")
            @mode = :filter
          when :escape then filter_by("")
          when :enter then turn_to(:detail)
          when "b" then open_confirmation
          end
          key == "q" ? :quit : :look
        end

        def press_in_filter(key)
          case key
          when :enter then @mode = :list
          when :escape
            @mode = :list
            filter_by("")
          when :backspace then filter_by(@filter[0...-1])
          when String then filter_by(@filter + key) if key.match?(/\A[[:print:]]\z/)
          end
          :look
        end

        def press_in_detail(key)
          case key
          when "b" then open_confirmation
          when :escape, :enter, "q" then @mode = :list
          end
          :look
        end

        def press_in_confirm(key)
          @mode = :list
          return [:break, @subject] if key == "y"

          note("Nothing was done.")
          :look
        end

        def turn_to(mode)
          @subject = selected unless @mode == :detail
          @mode = mode if @subject
        end

        def open_confirmation
          return note("This view is read-only.") if @read_only
          return note(SMALL) if @small

          turn_to(:confirm)
          return if @subject.nil? || @subject.held?

          @mode = :list
          note("No process holds it any more.")
        end

        def move(by)
          return if @rows.empty?

          place = ((index || 0) + by).clamp(0, @rows.size - 1)
          @selected = @rows[place].store_key
          scroll
        end

        def sort(order, reverse: false)
          @order = order
          @reverse = reverse
          arrange
          move(-@rows.size)
        end

        def filter_by(text)
          @filter = text
          @named = []
          arrange
        end

        # --- rows ---

        # Sorts the rows again. The same lock stays selected, even if its row moves.
        def arrange
          return unless @snapshot

          @rows = Survey::Listing.new(
            @snapshot, named: @named, query: @filter.strip, order: @order, reverse: @reverse
          ).found
          @selected = @rows.first&.store_key unless index
          scroll
        end

        def index = @selected && @rows.index { |status| status.store_key == @selected }

        def selected = (place = index) && @rows[place]

        def scroll
          place = index || 0
          @top = place if place < @top
          @top = place - @height + 1 if place >= @top + @height
          @top = @top.clamp(0, [@rows.size - @height, 0].max)
        end

        # --- lines ---

        def title(width)
          name = "plock top  #{@title}"
          return name unless @snapshot

          held, waiting = [@snapshot.held, @snapshot.waiting].map { |number| @words.count(number) }
          numbers = "#{held} held, #{waiting} waiting"
          room = width - numbers.size - 2
          room < NAME ? name : "#{name[0, room].ljust(room)}  #{numbers}"
        end

        def state
          return [@note, :strong] if @note
          return ["Filter: #{@filter}_", :strong] if @mode == :filter
          return ["The store does not answer: #{@words.plain(@error.message)}", :alarm] if @error
          return ["", :plain] unless @mode == :list
          return ["Looking ...", :plain] unless @snapshot
          return [circle, :alarm] if @snapshot.circles.any?

          [progress || "Sorted by #{ORDERS[@order]}#{", turned round" if @reverse}" \
                       "#{". Filter: #{@filter}" unless @filter.empty?}", :plain]
        end

        def circle
          wait = @snapshot.circles.first.first
          "Processes wait for one another: #{@words.owner(wait.waiter)} waits for " \
            "#{@words.title_of(wait.status)}, which #{@words.owner(wait.holder)} holds"
        end

        def progress
          unless @snapshot.complete?
            return "Still counting: #{@words.counted(@snapshot.rest, "key")} to look at"
          end
          return CUT if @snapshot.cut?
          return if @snapshot.unreadable.empty?

          "#{@words.counted(@snapshot.unreadable.size, "key")} could not be read: " \
            "#{@words.plain(@snapshot.unreadable.last.message)}"
        end

        def list(width)
          scroll
          labels, holders = halves(width)
          heading = row(%w[WAIT OLDEST HELD LEFT KIND LABEL HOLDER], labels, holders)
          [[heading, :strong], *shown.map { |status| line(status, width, labels, holders) },
           *([[empty, :plain]] if @rows.empty? && @snapshot)]
        end

        def halves(width)
          rest = width - WAITING - (3 * TIMES) - KIND - (6 * GAP.size)
          holders = (rest * 4 / 9).clamp(8, 40)
          [[rest - holders, 8].max, holders]
        end

        def line(status, width, labels, holders)
          text = row(cells(status), labels, holders)
          return [@words.fit(text, width), :selected] if status.store_key == @selected

          [text, status.waiters.any? ? :waited : :plain]
        end

        def cells(status)
          [
            status.waiters.size, @words.ago(Survey::Snapshot.first_wait(status)),
            @words.ago(status.since), @words.short_span(status.remaining),
            status.kind.to_s.tr("_", "-"), label(status), @words.holder(status) || "free"
          ]
        end

        def label(status) = status.label ? @words.plain(status.label) : @words.title_of(status)

        def row(cells, labels, holders)
          waiting, *times, kind, label, holder = cells.map { |cell| (cell || "-").to_s }
          [waiting.rjust(WAITING), *times.map { |time| time.rjust(TIMES) }, kind.ljust(KIND),
           @words.fit(label, labels), @words.fit(holder, holders)].join(GAP).rstrip
        end

        def empty
          @filter.empty? ? "No key is held." : "Nothing held fits. Esc shows all."
        end

        # --- one lock ---

        def follow(found)
          return unless found.key?(@subject.store_key)

          @subject = found[@subject.store_key] ||
                     Status.new(@subject.key, @subject.store_key, nil)
        end

        def subject
          [
            [asks? ? "Break this lock?" : @words.title_of(@subject), :strong],
            ["#{@words.kind_name(@subject.kind)} #{@subject.store_key}", :plain],
            *([["at node #{@subject.node}", :plain]] if @subject.node),
            *([["free", :plain]] unless @subject.held?),
            *holders,
            *(asks? ? warning : @subject.waiters.map { |known| [person("waits:", known), :plain] })
          ]
        end

        # The lines about the holders. While the board asks a question, some holders may be left
        # out, so that the lines below fit on the screen.
        def holders
          room = asks? ? @height + 1 - (QUESTION - 2) : @subject.holders.size
          shown = @subject.holders
          shown = shown.first(room - 1) if shown.size > room
          more = @subject.holders.size - shown.size
          style = asks? ? :alarm : :plain
          [*shown.map { |holder| [person("held by", holder), style] },
           *([["and by #{@words.count(more)} more", style]] if more.positive?)]
        end

        def person(what, known)
          label = known.label ? %("#{@words.plain(known.label)}") : "no label"
          time = "for #{@words.ago(known.since)}" if known.since
          fence = "fence #{known.fence}" if known.respond_to?(:fence) && known.fence
          [what, @words.owner(known), label, known.mode, time, fence].compact.join(" ")
        end

        def warning
          waiters = @subject.waiters.size
          [
            ["#{@words.counted(waiters, "waiter")}#{": the first one gets the key" if waiters > 0}",
             :plain],
            ["The holder learns of the loss, but may still be running.", :plain],
            ["y breaks the lock. Any other key leaves it alone.", :strong]
          ]
        end

        def help
          case @mode
          when :filter then "Enter done  Esc all  part of a label, host or store key, or a name"
          when :detail then "Esc back#{"  b break" unless @read_only}"
          when :confirm then "y break  any other key: leave it alone"
          else
            "q quit  j k move  Enter show  / filter  s r sort#{"  b break" unless @read_only}"
          end
        end
      end
    end
  end
end
