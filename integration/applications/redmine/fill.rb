# Projects with issues, notes, news and wiki pages, and a user who may change issues. ARGV: how many issues.
issues = ARGV[0].to_i
words = %w[cache query table index reader writer change commit replica stream]
Setting.default_language = "en"
Setting.notified_events = [] # nobody reads mails
Setting.text_formatting = "textile"
User.find_by(login: "admin").update!(must_change_passwd: false)
ActiveRecord::Base.transaction do
  people = %w[ann bob cleo].map do |name|
    User.new(login: name, firstname: name.capitalize, lastname: "Lee", mail: "#{name}@example.com", language: "en").tap do |one|
      one.password = one.password_confirmation = "secret of #{name}"
      one.status = User::STATUS_ACTIVE
      one.save!
    end
  end
  manager = Role.find_by!(name: "Manager")
  trackers, priorities = Tracker.all.to_a, IssuePriority.all.to_a
  statuses = IssueStatus.all.to_a
  projects = (1..[issues / 20, 2].max).map do |number|
    project = Project.create!(name: "Project #{number}", identifier: "p#{number}", description: "About #{words[number % 10]}.",
                              is_public: true, enabled_module_names: %w[issue_tracking news wiki], trackers: trackers)
    people.each { |one| Member.create!(project: project, principal: one, roles: [manager]) }
    version = Version.create!(project: project, name: "#{number}.0", due_date: Date.new(2030, 1, number % 28 + 1))
    News.create!(project: project, author: people[number % 3], title: "News of #{number}", description: words.rotate(number).join(" "))
    page = WikiPage.create!(wiki: project.wiki || Wiki.create!(project: project, start_page: "Wiki"), title: "Wiki")
    WikiContent.create!(page: page, author: people[0], text: "h1. Project #{number}\n\n#{words.shuffle(random: Random.new(number)).join(' ')}")
    [project, version]
  end
  issues.times do |number|
    project, version = projects[number % projects.size]
    User.current = people[number % 3]
    issue = Issue.create!(project: project, tracker: trackers[number % trackers.size], author: people[number % 3],
                          assigned_to: people[(number + 1) % 3], priority: priorities[number % priorities.size],
                          status: statuses[0], subject: "#{words[number % 10]} of #{words[number / 10 % 10]}",
                          description: words.rotate(number).join(" "), fixed_version: number.even? ? version : nil,
                          due_date: Date.new(2030, 1, number % 28 + 1))
    (number % 3).times do |note|
      issue.reload.init_journal(people[note], "Note #{note} about #{words[(number + note) % 10]}.")
      issue.save!
    end
  end
end
